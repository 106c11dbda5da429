# A thin menu over CMake; the names of targets and variables are the interface that amd-device-plugin builds by.
#
#   make -f Makefile.hip [all|clean|check|check-san|bench|dist|deb|install] [BUILD_DIR=…] [BUILD_TYPE=…] [ROCM_HOME=…]
BUILD_DIR  ?= build-hip
BUILD_TYPE ?= Release
ROCM_HOME  ?= /opt/rocm
DIST_DIR   ?= dist
DESTDIR    ?=
PREFIX     ?= /usr/local
LIBRARY    := $(BUILD_DIR)/libamvgpu.so

.PHONY: all test clean check check-san bench dist deb install install-library

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

install: install-library
	cmake -S tools/amvgpu -B $(BUILD_DIR)/tool -DCMAKE_BUILD_TYPE=$(BUILD_TYPE)
	cmake --build $(BUILD_DIR)/tool --parallel
	umask 022 && DESTDIR=$(DESTDIR) cmake --install $(BUILD_DIR)/tool --prefix $(PREFIX) --strip

# What a node needs. The tool needs more to be built: see tools/amvgpu/CMakeLists.txt.
install-library: all
	packaging/install_library $(LIBRARY) $(DESTDIR)$(PREFIX)/vgpu
	packaging/install_library $(BUILD_DIR)/libamvgpu_guard.so $(DESTDIR)$(PREFIX)/vgpu

# The time of the last commit, in every file of the package.
deb: export SOURCE_DATE_EPOCH ?= $(shell git log -1 --format=%ct 2>/dev/null || stat -c %Y CHANGELOG.md)
deb:
	cmake -S . -B $(BUILD_DIR)/deb -DCMAKE_BUILD_TYPE=$(BUILD_TYPE) -DCMAKE_SKIP_INSTALL_ALL_DEPENDENCY=ON
	cmake --build $(BUILD_DIR)/deb --parallel --target deb-files
	mkdir -p $(DIST_DIR)
	cpack --config $(BUILD_DIR)/deb/CPackConfig.cmake -B $(DIST_DIR)
	rm -rf $(DIST_DIR)/_CPack_Packages
