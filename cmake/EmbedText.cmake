# cmake -DIN=a.wgsl -DOUT=a.wgsl.cpp -DNAME=a -P EmbedText.cmake
file(READ ${IN} text)
if(text MATCHES "\\)__wgsl\"")
  message(FATAL_ERROR "${IN} holds the mark that ends its literal, )__wgsl\". Fix: write it another way.")
endif()
file(WRITE ${OUT} "#include \"ops/wgsl.h\"\nnamespace weft::wgsl {\nconstinit const std::string_view ${NAME} = R\"__wgsl(${text})__wgsl\";\n}  // namespace weft::wgsl\n")
