# One step of the packaging tests: cmake -DSTEP=install|find_package|pkg_config|add_subdirectory ... -P run.cmake
cmake_minimum_required(VERSION 3.25)

function(run)
  execute_process(COMMAND ${ARGN} COMMAND_ECHO STDOUT COMMAND_ERROR_IS_FATAL ANY)
endfunction()

# consume(name cmake-argument...): configures, builds and runs the consumer of that name.
function(consume name)
  set(build ${WORK}/${name})
  file(REMOVE_RECURSE ${build})
  set(common -G ${GENERATOR} -DCMAKE_BUILD_TYPE=${BUILD_TYPE} -DCMAKE_CXX_COMPILER=${COMPILER})
  if(COMPILER_LAUNCHER)
    list(APPEND common -DCMAKE_CXX_COMPILER_LAUNCHER=${COMPILER_LAUNCHER})
  endif()
  run(${CMAKE_COMMAND} -S ${SOURCE}/tests/packaging/${STEP} -B ${build} ${common} ${ARGN})
  run(${CMAKE_COMMAND} --build ${build} --parallel 2)
  start(${build}/consumer)
endfunction()

# start(program argument...): it must succeed and name this version.
function(start)
  execute_process(COMMAND ${EMULATOR} ${ARGN} COMMAND_ECHO STDOUT OUTPUT_VARIABLE printed ECHO_OUTPUT_VARIABLE
                  COMMAND_ERROR_IS_FATAL ANY)
  string(FIND "${printed}" "${VERSION}" at)
  if(at EQUAL -1)
    message(FATAL_ERROR "${ARGN} did not print the version ${VERSION}")
  endif()
endfunction()

# by_pkg_config(name source): compiles and runs one file with the flags that pkg-config gives.
function(by_pkg_config name source)
  find_program(pkg_config pkg-config REQUIRED)
  file(GLOB found ${FROM}/lib*/pkgconfig/weft.pc ${FROM}/lib/*/pkgconfig/weft.pc)
  list(LENGTH found count)
  if(NOT count EQUAL 1)
    message(FATAL_ERROR "${count} files weft.pc under ${FROM}, not one")
  endif()
  get_filename_component(folder ${found} DIRECTORY)
  execute_process(COMMAND ${CMAKE_COMMAND} -E env PKG_CONFIG_PATH=${folder} ${pkg_config} --cflags --libs "weft = ${VERSION}"
                  OUTPUT_VARIABLE flags OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ECHO STDOUT COMMAND_ERROR_IS_FATAL ANY)
  separate_arguments(flags UNIX_COMMAND "${flags}")
  get_filename_component(libraries ${folder} DIRECTORY)
  run(${COMPILER} -std=c++20 ${source} -o ${WORK}/${name} ${flags} -Wl,-rpath,${libraries})
  start(${WORK}/${name})
endfunction()

# By environment, where a list needs no quoting.
cmake_path(CONVERT "${FROM};${PREFIX_PATH}" TO_NATIVE_PATH_LIST prefixes NORMALIZE)
set(ENV{CMAKE_PREFIX_PATH} "${prefixes}")

if(STEP STREQUAL "install")
  file(REMOVE_RECURSE ${TO})
  run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${TO})
  # Nothing of the build may be needed any more; the command, where it was built, must start from its new place.
  if(EXISTS ${TO}/bin/weft)
    start(${TO}/bin/weft --version)
  endif()
elseif(STEP STREQUAL "find_package")
  get_filename_component(name ${FROM} NAME)
  consume(find_package_${name})
elseif(STEP STREQUAL "pkg_config")
  get_filename_component(name ${FROM} NAME)
  by_pkg_config(pkg_config_${name} ${SOURCE}/tests/packaging/consumer.cpp)
elseif(STEP STREQUAL "add_subdirectory")
  consume(add_subdirectory -DWEFT_DIR=${SOURCE} -DBUILD_SHARED_LIBS=${SHARED} -DWEFT_INSTALL=ON -DWEFT_WERROR=${WERROR}
    -DWEFT_WEBGPU=${WEBGPU} -DWEFT_WGPU_NATIVE_DIR=${NATIVE_DIR})
else()
  message(FATAL_ERROR "no step '${STEP}'")
endif()
