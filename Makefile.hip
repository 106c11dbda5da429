# A thin menu over CMake; the names of targets and variables are the interface that amd-device-plugin builds by.
#
#   make -f Makefile.hip [all|clean|check|check-san|bench|dist|install] [BUILD_DIR=…] [BUILD_TYPE=…] [ROCM_HOME=…]
BUILD_DIR  ?= build-hip
BUILD_TYPE ?= Release
ROCM_HOME  ?= /opt/rocm
DIST_DIR   ?= dist
DESTDIR    ?=
PREFIX     ?= /usr/local
LIBRARY    := $(BUILD_DIR)/libamvgpu.so

.PHONY: all test clean check check-san bench dist install

all:
	cmake -S . -B $(BUILD_DIR) -DCMAKE_BUILD_TYPE=$(BUILD_TYPE) -DAMVGPU_ONLY_LIBRARY=ON
	cmake --build $(BUILD_DIR) --parallel
	test -s $(LIBRARY)

clean:
	rm -rf $(BUILD_DIR) $(DIST_DIR)

dist: all
	mkdir -p $(DIST_DIR)
	install -m 0555 $(LIBRARY) $(DIST_DIR)/.libamvgpu.so.new
	mv -f $(DIST_DIR)/.libamvgpu.so.new $(DIST_DIR)/libamvgpu.so
	ROCM_HOME=$(ROCM_HOME) test/build_memory_limit $(DIST_DIR)/.test_memory_limit.new
	mv -f $(DIST_DIR)/.test_memory_limit.new $(DIST_DIR)/test_memory_limit
	test/check_glibc_abi.sh $(DIST_DIR)/libamvgpu.so

test check:
	./check

check-san:
	./check --sanitizers

bench: all
	bench/run

install: all
	install -D -m 0555 $(LIBRARY) $(DESTDIR)$(PREFIX)/vgpu/libamvgpu.so
