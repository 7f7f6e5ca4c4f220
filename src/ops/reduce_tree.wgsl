// A workgroup for each output and split, of long rows; see reduce.wgsl. Base tier.
var<workgroup> tree: array<Acc, GROUP>;

@compute @workgroup_size(GROUP)
fn by_group(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
  let t = group.x + group.y * 32768u;
  tree[lane] = share_of_group(t, lane);
  for (var half = GROUP / 2u; half > 0u; half /= 2u) {
    workgroupBarrier();
    if (lane < half) {
      tree[lane] = combine(tree[lane], tree[lane + half]);
    }
  }
  if (lane == 0u && is_output(t)) {
    out[params.out_offset + t] = finish(tree[0]);
  }
}
