# Defines the target weft_webgpu: the WebGPU implementation that WEFT_WEBGPU names, with its headers.
#
# wgpu-native: WEFT_WGPU_NATIVE_DIR holds webgpu.h, wgpu.h and the library (script/bootstrap takes them from the wgpu
# wheel). dawn: find_package(Dawn).
add_library(weft_webgpu INTERFACE)
if(WEFT_WEBGPU STREQUAL "wgpu-native")
  set(WEFT_WGPU_NATIVE_DIR "${PROJECT_SOURCE_DIR}/.weft/wgpu-native" CACHE PATH "Headers and library of wgpu-native")
  find_path(WEFT_WGPU_NATIVE_INCLUDE wgpu.h HINTS ${WEFT_WGPU_NATIVE_DIR} NO_DEFAULT_PATH)
  find_library(WEFT_WGPU_NATIVE_LIBRARY NAMES wgpu_native wgpu_native-release HINTS ${WEFT_WGPU_NATIVE_DIR} NO_DEFAULT_PATH)
  if(NOT WEFT_WGPU_NATIVE_INCLUDE OR NOT WEFT_WGPU_NATIVE_LIBRARY)
    message(FATAL_ERROR "wgpu-native not found in ${WEFT_WGPU_NATIVE_DIR}. Fix: run script/bootstrap, or set WEFT_WGPU_NATIVE_DIR.")
  endif()
  add_library(weft_wgpu_native SHARED IMPORTED GLOBAL)
  # The library has no SONAME: without IMPORTED_NO_SONAME the linker would record its absolute path.
  set_target_properties(weft_wgpu_native PROPERTIES
    IMPORTED_LOCATION ${WEFT_WGPU_NATIVE_LIBRARY}
    IMPORTED_NO_SONAME ON
    INTERFACE_INCLUDE_DIRECTORIES ${WEFT_WGPU_NATIVE_INCLUDE})
  target_link_libraries(weft_webgpu INTERFACE weft_wgpu_native)
elseif(WEFT_WEBGPU STREQUAL "dawn")
  find_package(Dawn CONFIG REQUIRED)
  target_link_libraries(weft_webgpu INTERFACE dawn::webgpu_dawn)
  target_compile_definitions(weft_webgpu INTERFACE WEFT_DAWN=1)
  # Dawn tells no version, and its CMake package says 0.0.0: what its Debian package says, in the list that script/dawn
  # leaves beside its prefix, or else in dpkg's.
  set(WEFT_DAWN_VERSION "" CACHE STRING "Version of Dawn that 'weft info' shows; empty: that of its Debian package")
  set(version "${WEFT_DAWN_VERSION}")
  get_filename_component(prefix "${Dawn_DIR}/../../../../../.." ABSOLUTE)
  if(NOT version AND EXISTS ${prefix}/versions)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${prefix}/versions)
    file(STRINGS ${prefix}/versions lines REGEX "libwebgpu-dawn0 ")
    string(REGEX MATCH "[^ ]+$" version "${lines}")
  elseif(NOT version AND Dawn_DIR MATCHES "^/usr/lib/")
    execute_process(COMMAND dpkg-query -W -f "\${Version}" libwebgpu-dawn-dev
      OUTPUT_VARIABLE version ERROR_QUIET)
  endif()
  if(NOT version)
    set(version unknown)
  endif()
  message(STATUS "Dawn ${version}")
  set(weft_dawn_version "${version}")
  # Dawn built against a newer C library than this system's (script/dawn): its symbols are resolved at run time, by the
  # loader that comes with it.
  target_link_options(weft_webgpu INTERFACE -Wl,--allow-shlib-undefined)
else()
  message(FATAL_ERROR "WEFT_WEBGPU is '${WEFT_WEBGPU}'. Fix: set it to wgpu-native or dawn.")
endif()
