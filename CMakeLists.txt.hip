# libamvgpu.so: freestanding (no libc, no DT_NEEDED, no undefined symbol), so that one build runs on every glibc.
#
# Included by CMakeLists.txt; also usable alone, copied or linked as the CMakeLists.txt of a build folder.
cmake_minimum_required(VERSION 3.18)
if(NOT PROJECT_NAME)
	project(amd-hami-core VERSION 1.0.0 LANGUAGES C)
endif()
if(NOT CMAKE_BUILD_TYPE)
	set(CMAKE_BUILD_TYPE Release)
endif()
set(CMAKE_C_STANDARD 11)
set(CMAKE_C_EXTENSIONS ON)

get_filename_component(AMVGPU_ROOT "${CMAKE_CURRENT_LIST_FILE}" REALPATH)
get_filename_component(AMVGPU_ROOT "${AMVGPU_ROOT}" DIRECTORY)

file(GLOB AMVGPU_SOURCES CONFIGURE_DEPENDS ${AMVGPU_ROOT}/src/*/*.c)

add_library(amvgpu SHARED ${AMVGPU_SOURCES})
set_target_properties(amvgpu PROPERTIES
	LINK_DEPENDS ${AMVGPU_ROOT}/src/libamvgpu.map
	LIBRARY_OUTPUT_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR})
target_compile_definitions(amvgpu PRIVATE _GNU_SOURCE)
target_compile_options(amvgpu PRIVATE
	-O2 -g -ffreestanding -fvisibility=hidden -fno-stack-protector -fcf-protection=none
	-ftls-model=initial-exec -fno-plt -fasynchronous-unwind-tables
	-mno-sse -mgeneral-regs-only -Wall -Wextra -Wvla -Wno-missing-field-initializers)
# memcpy and its kin must not be turned into calls of themselves.
if(CMAKE_C_COMPILER_ID STREQUAL "Clang")
	target_compile_options(amvgpu PRIVATE -fno-builtin)
else()
	target_compile_options(amvgpu PRIVATE -fno-tree-loop-distribute-patterns)
endif()
target_link_options(amvgpu PRIVATE
	-nostdlib -nostartfiles -Wl,--no-undefined -Wl,-z,now -Wl,-z,relro -Wl,-z,noexecstack
	-Wl,--hash-style=both -Wl,--build-id -Wl,-z,max-page-size=4096
	-Wl,--version-script=${AMVGPU_ROOT}/src/libamvgpu.map)
