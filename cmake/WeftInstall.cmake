# Install rules: headers, library, command and a CMake package with the target weft::weft.
include(CMakePackageConfigHelpers)

set(weft_package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/weft)

# What a program that links weft statically needs of WebGPU. In this build it is weft_webgpu; weftConfig.cmake makes
# weft::webgpu out of what was installed.
target_link_libraries(weft PRIVATE $<INSTALL_INTERFACE:weft::webgpu>)
set_target_properties(weft PROPERTIES INSTALL_RPATH "$ORIGIN")

install(TARGETS weft EXPORT weftTargets
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
  RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/weft DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(EXPORT weftTargets NAMESPACE weft:: DESTINATION ${weft_package_dir})
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
# Of what is compiled in or lies beside the library.
install(DIRECTORY ${PROJECT_SOURCE_DIR}/licenses DESTINATION ${CMAKE_INSTALL_DOCDIR})

set(weft_native_file "")
if(WEFT_WEBGPU STREQUAL "wgpu-native")
  # Beside libweft, where its rpath and the command's look for it.
  get_filename_component(weft_native_file ${WEFT_WGPU_NATIVE_LIBRARY} NAME)
  install(PROGRAMS ${WEFT_WGPU_NATIVE_LIBRARY} DESTINATION ${CMAKE_INSTALL_LIBDIR})
endif()

if(TARGET weft_cli)
  file(RELATIVE_PATH to_lib ${CMAKE_INSTALL_FULL_BINDIR} ${CMAKE_INSTALL_FULL_LIBDIR})
  set_target_properties(weft_cli PROPERTIES INSTALL_RPATH "$ORIGIN/${to_lib}")
  install(TARGETS weft_cli RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()

get_target_property(weft_type weft TYPE)
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/weftConfig.cmake.in
  ${PROJECT_BINARY_DIR}/package/weftConfig.cmake
  INSTALL_DESTINATION ${weft_package_dir}
  PATH_VARS CMAKE_INSTALL_LIBDIR)
# Until 1.0 a new minor version may change the interface.
write_basic_package_version_file(${PROJECT_BINARY_DIR}/package/weftConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/package/weftConfig.cmake ${PROJECT_BINARY_DIR}/package/weftConfigVersion.cmake
  DESTINATION ${weft_package_dir})

# For what is built without CMake. Where Dawn lies only its own CMake package knows, so there is none for builds on it.
if(WEFT_WEBGPU STREQUAL "wgpu-native" AND NOT IS_ABSOLUTE "${CMAKE_INSTALL_LIBDIR}"
   AND NOT IS_ABSOLUTE "${CMAKE_INSTALL_INCLUDEDIR}")
  file(RELATIVE_PATH weft_pc_prefix "/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/")
  string(REGEX REPLACE "/$" "" weft_pc_prefix "${weft_pc_prefix}")
  set(weft_pc_libs "")
  if(weft_type STREQUAL "STATIC_LIBRARY")
    # A shared libweft names these to the loader by itself.
    set(weft_pc_libs " -l:${weft_native_file} -Wl,-rpath,\${libdir} -lfmt -lz -pthread -lstdc++ -lm")
  endif()
  configure_file(${PROJECT_SOURCE_DIR}/cmake/weft.pc.in ${PROJECT_BINARY_DIR}/package/weft.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/package/weft.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endif()
