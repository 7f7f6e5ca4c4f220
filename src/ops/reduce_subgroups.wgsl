// A workgroup for each output and split, of long rows; see reduce.wgsl. The text in front defines over_subgroup(acc), which
// joins a subgroup's values for all of its threads, MOST_SUBGROUPS of a workgroup, and tops_of_tops(n), which joins the
// first n of `tops`.
var<workgroup> tops: array<Acc, MOST_SUBGROUPS>;

@compute @workgroup_size(GROUP)
fn by_group(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32,
            @builtin(subgroup_id) subgroup: u32, @builtin(subgroup_invocation_id) in_subgroup: u32,
            @builtin(num_subgroups) subgroups: u32) {
  let t = group.x + group.y * 32768u;
  let over = over_subgroup(share_of_group(t, lane));
  if (in_subgroup == 0u) {
    tops[subgroup] = over;
  }
  workgroupBarrier();
  if (lane == 0u && is_output(t)) {
    out[params.out_offset + t] = finish(tops_of_tops(subgroups));
  }
}
