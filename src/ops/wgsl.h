// The texts of the .wgsl files beside this, each by its file's name. The build makes a source of each
// (cmake/WeftEmbed.cmake); what uses a text includes nothing that is generated.
#pragma once

#include <string_view>

namespace weft::wgsl {

extern const std::string_view attention;
extern const std::string_view fft;
extern const std::string_view layer_norm;
extern const std::string_view pool;
extern const std::string_view random;
extern const std::string_view reduce;
extern const std::string_view reduce_blocks;
extern const std::string_view reduce_each;
extern const std::string_view reduce_quads;
extern const std::string_view reduce_subgroup;
extern const std::string_view reduce_subgroups;
extern const std::string_view reduce_tree;
extern const std::string_view rows;
extern const std::string_view scan;
extern const std::string_view softmax;
extern const std::string_view sort_first;
extern const std::string_view sort_merge;

}  // namespace weft::wgsl
