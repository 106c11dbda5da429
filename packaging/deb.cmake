# amvgpu_VERSION_amd64.deb (make -f Makefile.hip deb): what `install` brings, in the places that Debian has for it.
#
# The libraries are nobody's link dependency, so they are in a folder of the package's own, as coreutils has its libstdbuf.so;
# amvgpu is beside them, where it finds them (tools/amvgpu/library.c). All of it is the component "deb", which an ordinary
# install leaves out.
set(AMVGPU_MAINTAINER "amd-hami-core maintainers <maintainers@amd-hami-core.invalid>" CACHE STRING "Maintainer: of the .deb")
set(home libexec/amvgpu)
set(staged ${CMAKE_BINARY_DIR}/packaging)

# SOURCE_DATE_EPOCH, where it is set: the same source makes the same package.
string(TIMESTAMP AMVGPU_DATE "%a, %d %b %Y %H:%M:%S +0000" UTC)
configure_file(packaging/changelog.in ${CMAKE_BINARY_DIR}/changelog @ONLY)
file(MAKE_DIRECTORY ${staged})
file(CREATE_LINK ../${home}/amvgpu ${staged}/amvgpu SYMBOLIC)

# compressed(SOURCE): SOURCE.gz in ${staged}, without a name or time in it
function(compressed source)
	get_filename_component(name ${source} NAME)
	add_custom_command(OUTPUT ${staged}/${name}.gz DEPENDS ${source}
		COMMAND ${CMAKE_COMMAND} -E copy ${source} ${staged}/${name}
		COMMAND gzip -9nf ${staged}/${name} VERBATIM)
	set_property(GLOBAL APPEND PROPERTY AMVGPU_COMPRESSED ${staged}/${name}.gz)
endfunction()
compressed(${CMAKE_BINARY_DIR}/changelog)
compressed(${CMAKE_SOURCE_DIR}/docs/man/amvgpu.1)
compressed(${CMAKE_SOURCE_DIR}/docs/man/libamvgpu.7)
get_property(files GLOBAL PROPERTY AMVGPU_COMPRESSED)
add_custom_target(deb-files DEPENDS ${files} amvgpu amvgpu_guard amvgpu-tool)

set(in_deb COMPONENT deb EXCLUDE_FROM_ALL)
install(TARGETS amvgpu-tool RUNTIME DESTINATION ${home} ${in_deb})
install(TARGETS amvgpu amvgpu_guard LIBRARY DESTINATION ${home} ${in_deb}
	PERMISSIONS OWNER_READ OWNER_WRITE GROUP_READ WORLD_READ)
install(PROGRAMS packaging/install_library DESTINATION ${home} ${in_deb})
install(FILES ${staged}/amvgpu DESTINATION bin ${in_deb})
install(FILES tools/completion/amvgpu DESTINATION share/bash-completion/completions ${in_deb})
install(FILES ${staged}/amvgpu.1.gz DESTINATION share/man/man1 ${in_deb})
install(FILES ${staged}/libamvgpu.7.gz DESTINATION share/man/man7 ${in_deb})
install(FILES packaging/copyright ${staged}/changelog.gz CHANGELOG.md docs/deploy.md DESTINATION share/doc/amvgpu ${in_deb})
install(FILES packaging/lintian-overrides DESTINATION share/lintian/overrides RENAME amvgpu ${in_deb})

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME amvgpu)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_INSTALL_CMAKE_PROJECTS "${CMAKE_BINARY_DIR};${PROJECT_NAME};deb;/")
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS
	OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_ARCHITECTURE amd64)
set(CPACK_DEBIAN_PACKAGE_MAINTAINER "${AMVGPU_MAINTAINER}")
set(CPACK_DEBIAN_PACKAGE_SECTION utils)
set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "slices of an AMD GPU for containers and programs")
set(CPACK_DEBIAN_PACKAGE_DESCRIPTION
"libamvgpu.so makes a program see and use only its slice of an AMD GPU: a hard
memory limit per device over all processes of a pod, a compute-unit mask and a
queue priority. Programs and ROCm stay as they are.
.
amvgpu runs programs on a slice without a container, shows who holds how much,
and explains why a limit does not act.")
include(CPack)
