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

# Where the guard finds the library if the pod specification does not say.
set(AMVGPU_LIBRARY_PATH "/usr/local/vgpu/libamvgpu.so" CACHE STRING "path of the library in a container")

file(GLOB AMVGPU_SOURCES CONFIGURE_DEPENDS ${AMVGPU_ROOT}/src/*/*.c)
list(FILTER AMVGPU_SOURCES EXCLUDE REGEX "/src/guard/")
# What the start of every program runs and writes, in this order: src/libamvgpu.ld lays it together.
set(AMVGPU_START sys/log sys/mem loader/program_libc loader/demand loader/elf_object loader/elf_patch loader/elf_symbol
	loader/exec_environment loader/exec hip/libamvgpu_audit kfd/ioctl hip/keep)
list(TRANSFORM AMVGPU_START PREPEND ${AMVGPU_ROOT}/src/)
list(TRANSFORM AMVGPU_START APPEND .c)
list(REMOVE_ITEM AMVGPU_SOURCES ${AMVGPU_START})

function(compile_freestanding name)
	target_compile_definitions(${name} PRIVATE _GNU_SOURCE)
	target_compile_options(${name} PRIVATE
		-O2 -g -ffreestanding -fvisibility=hidden -fno-stack-protector -fcf-protection=none
		-ftls-model=initial-exec -fno-plt -fasynchronous-unwind-tables
		-mno-sse -mgeneral-regs-only -Wall -Wextra -Wvla -Wno-missing-field-initializers)
	# memcpy and its kin must not be turned into calls of themselves.
	if(CMAKE_C_COMPILER_ID STREQUAL "Clang")
		target_compile_options(${name} PRIVATE -fno-builtin)
	else()
		target_compile_options(${name} PRIVATE -fno-tree-loop-distribute-patterns)
	endif()
endfunction()

# A freestanding shared object beside the others: add_freestanding(NAME VERSION_SCRIPT SOURCE...)
function(add_freestanding name map)
	add_library(${name} SHARED ${ARGN})
	set_target_properties(${name} PROPERTIES
		LINK_DEPENDS ${map}
		LIBRARY_OUTPUT_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR})
	compile_freestanding(${name})
	target_link_options(${name} PRIVATE
		-nostdlib -nostartfiles -Wl,--no-undefined -Wl,-z,now -Wl,-z,relro -Wl,-z,noexecstack
		-Wl,--hash-style=both -Wl,--build-id -Wl,-z,max-page-size=4096
		-Wl,--version-script=${map})
endfunction()

add_library(amvgpu_start OBJECT ${AMVGPU_START})
set_target_properties(amvgpu_start PROPERTIES POSITION_INDEPENDENT_CODE ON)
compile_freestanding(amvgpu_start)
if(NOT CMAKE_C_COMPILER_ID STREQUAL "Clang")
	target_compile_options(amvgpu_start PRIVATE -fno-merge-constants) # else a text lies where its first user's do
endif()

add_freestanding(amvgpu ${AMVGPU_ROOT}/src/libamvgpu.map $<TARGET_OBJECTS:amvgpu_start> ${AMVGPU_SOURCES})
set_property(TARGET amvgpu APPEND PROPERTY LINK_DEPENDS ${AMVGPU_ROOT}/src/libamvgpu.ld)
target_link_options(amvgpu PRIVATE -Wl,-T,${AMVGPU_ROOT}/src/libamvgpu.ld)

# For /etc/ld.so.preload; not part of the library, which stays one file.
add_freestanding(amvgpu_guard ${AMVGPU_ROOT}/src/guard/libamvgpu_guard.map
	${AMVGPU_ROOT}/src/guard/guard.c ${AMVGPU_ROOT}/src/loader/exec_environment.c
	${AMVGPU_ROOT}/src/loader/elf_object.c ${AMVGPU_ROOT}/src/loader/elf_symbol.c ${AMVGPU_ROOT}/src/sys/mem.c)
target_compile_definitions(amvgpu_guard PRIVATE GUARD_LIBRARY="${AMVGPU_LIBRARY_PATH}")
target_link_options(amvgpu_guard PRIVATE -Wl,-z,initfirst -Wl,-soname,libamvgpu_guard.so)
