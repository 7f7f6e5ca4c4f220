// A workgroup for each output and split, where one subgroup is the whole workgroup; see reduce_subgroups.wgsl.
@compute @workgroup_size(GROUP)
fn by_group(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
  let t = group.x + group.y * 32768u;
  let all = over_subgroup(share_of_group(t, lane));
  if (lane == 0u && is_output(t)) {
    out[params.out_offset + t] = finish(all);
  }
}
