# weft_target_options(target): warnings, and the sanitizers of WEFT_SANITIZE, for one of our own targets.
function(weft_target_options target)
  target_compile_options(${target} PRIVATE -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion
                                           -Wnon-virtual-dtor -Woverloaded-virtual)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
    target_compile_options(${target} PRIVATE -Wno-restrict)  # false reports on std::string's operator+ (gcc PR 105651)
  endif()
  if(WEFT_WERROR)
    target_compile_options(${target} PRIVATE -Werror)
  endif()
  if(WEFT_SANITIZE)
    # What UBSan finds ends the program: a report that a passing test prints would go unread.
    target_compile_options(${target} PRIVATE -fsanitize=${WEFT_SANITIZE} -fno-sanitize-recover=all
                                             -fno-omit-frame-pointer)
    target_link_options(${target} PUBLIC -fsanitize=${WEFT_SANITIZE})
    get_target_property(type ${target} TYPE)
    if(type STREQUAL "EXECUTABLE" AND WEFT_SANITIZE MATCHES "address")
      target_sources(${target} PRIVATE ${PROJECT_SOURCE_DIR}/tests/sanitizers/keep_loaded.cpp)
    endif()
  endif()
endfunction()
