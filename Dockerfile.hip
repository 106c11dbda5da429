# Builds libamvgpu.so and test_memory_limit; `docker run --rm -v $(pwd)/dist:/dist IMAGE` copies them out.
#
# Match ROCM_IMAGE to the host's ROCm, so that test_memory_limit is built against its headers. The library itself needs
# none: one build serves ROCm 5.2 to 7.2 and every glibc from 2.31 on.
ARG ROCM_IMAGE=rocm/dev-ubuntu-24.04:7.2
FROM ${ROCM_IMAGE}
RUN apt-get update && apt-get install -y --no-install-recommends gcc libc6-dev make cmake binutils && \
    rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY . .
RUN make -f Makefile.hip clean dist
CMD ["sh", "-c", "cp dist/libamvgpu.so dist/test_memory_limit /dist/"]
