# weft_embed_wgsl(target FOR source... FILES file...): for each name.wgsl generates <build>/generated/wgsl/name.wgsl.h with
# `inline constexpr std::string_view name` in namespace weft::wgsl, before the target compiles.
#
# Only the sources named see the folder: it has another path in each build, and what is compiled with it is found in
# ccache by none of the others.
function(weft_embed_wgsl target)
  cmake_parse_arguments(arg "" "" "FOR;FILES" ${ARGN})
  set(out_dir ${PROJECT_BINARY_DIR}/generated/wgsl)
  set(outputs)
  foreach(file IN LISTS arg_FILES)
    get_filename_component(name ${file} NAME_WE)
    set(in ${CMAKE_CURRENT_SOURCE_DIR}/${file})
    set(out ${out_dir}/${name}.wgsl.h)
    add_custom_command(OUTPUT ${out}
      COMMAND ${CMAKE_COMMAND} -DIN=${in} -DOUT=${out} -DNAME=${name} -P ${PROJECT_SOURCE_DIR}/cmake/EmbedText.cmake
      DEPENDS ${in} ${PROJECT_SOURCE_DIR}/cmake/EmbedText.cmake VERBATIM)
    list(APPEND outputs ${out})
  endforeach()
  # A target of its own: the rule above belongs to this folder, and `target` to another.
  get_filename_component(folder ${CMAKE_CURRENT_SOURCE_DIR} NAME)
  add_custom_target(${target}_wgsl_${folder} DEPENDS ${outputs})
  add_dependencies(${target} ${target}_wgsl_${folder})
  set_property(SOURCE ${arg_FOR} TARGET_DIRECTORY ${target} APPEND PROPERTY
    INCLUDE_DIRECTORIES ${PROJECT_BINARY_DIR}/generated)
endfunction()
