// ROW_THREADS of a workgroup for each output and split, joined through workgroup memory; see reduce.wgsl.
var<workgroup> tree: array<Acc, GROUP>;

@compute @workgroup_size(GROUP)
fn by_group(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) local: u32) {
  let t = (group.x + group.y * 32768u) * (GROUP / ROW_THREADS) + local / ROW_THREADS;
  let lane = local % ROW_THREADS;
  tree[local] = share_of_group(t, lane);
  for (var half = ROW_THREADS / 2u; half > 0u; half /= 2u) {
    workgroupBarrier();
    if (lane < half) {
      tree[local] = combine(tree[local], tree[local + half]);
    }
  }
  if (lane == 0u && is_output(t)) {
    out[params.out_offset + t] = finish(tree[local]);
  }
}
