# weft_embed_wgsl(target file...): for each name.wgsl a source <build>/generated/wgsl/name.wgsl.cpp of the target, which
# defines `std::string_view weft::wgsl::name`.
#
# Sources, not headers: their folder has another path in each build, and what includes one is another file to ccache.
function(weft_embed_wgsl target)
  set(out_dir ${PROJECT_BINARY_DIR}/generated/wgsl)
  set(outputs)
  foreach(file IN LISTS ARGN)
    get_filename_component(name ${file} NAME_WE)
    set(in ${CMAKE_CURRENT_SOURCE_DIR}/${file})
    set(out ${out_dir}/${name}.wgsl.cpp)
    add_custom_command(OUTPUT ${out}
      COMMAND ${CMAKE_COMMAND} -DIN=${in} -DOUT=${out} -DNAME=${name} -P ${PROJECT_SOURCE_DIR}/cmake/EmbedText.cmake
      DEPENDS ${in} ${PROJECT_SOURCE_DIR}/cmake/EmbedText.cmake VERBATIM)
    list(APPEND outputs ${out})
  endforeach()
  # A target of its own: the rule above belongs to this folder, and `target` to another.
  get_filename_component(folder ${CMAKE_CURRENT_SOURCE_DIR} NAME)
  add_custom_target(${target}_wgsl_${folder} DEPENDS ${outputs})
  add_dependencies(${target} ${target}_wgsl_${folder})
  target_sources(${target} PRIVATE ${outputs})
endfunction()
