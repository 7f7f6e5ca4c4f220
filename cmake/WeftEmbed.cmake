# weft_embed_wgsl(target file...): for each dir/name.wgsl generates <build>/wgsl/name.wgsl.h with
# `inline constexpr std::string_view name` in namespace weft::wgsl, and adds <build> to the include path.
function(weft_embed_wgsl target)
  set(out_dir ${PROJECT_BINARY_DIR}/generated/wgsl)
  foreach(file IN LISTS ARGN)
    get_filename_component(name ${file} NAME_WE)
    set(in ${CMAKE_CURRENT_SOURCE_DIR}/${file})
    set(out ${out_dir}/${name}.wgsl.h)
    add_custom_command(OUTPUT ${out}
      COMMAND ${CMAKE_COMMAND} -DIN=${in} -DOUT=${out} -DNAME=${name} -P ${PROJECT_SOURCE_DIR}/cmake/EmbedText.cmake
      DEPENDS ${in} ${PROJECT_SOURCE_DIR}/cmake/EmbedText.cmake VERBATIM)
    target_sources(${target} PRIVATE ${out})
  endforeach()
  target_include_directories(${target} PRIVATE ${PROJECT_BINARY_DIR}/generated)
endfunction()
