// The first stage of a sort: runs of a row, each in order. In front of this text stand Params, key_of(i),
// spot_of(row, run) and put(spot, j, key, place), the j-th element of a run's order.
//
// A key is a u32 in the order of the elements: NaN the largest, -0 and 0 the same; all bits turned over
// when the order is descending. Of equal keys the lower place in the row comes first.

fn row_start(row: u32) -> u32 {
  return params.x_offset + row / params.kept_inner * params.stride0 + row % params.kept_inner * params.stride1;
}

fn runs_of_row() -> u32 {
  return (params.length + params.run - 1u) / params.run;
}

const TILE = 2048u;
const THREADS = 256u;
var<workgroup> tile_keys: array<u32, TILE>;
var<workgroup> tile_places: array<u32, TILE>;

// A workgroup for TILE / params.run runs: a bitonic network. params.run is a power of two up to TILE.
@compute @workgroup_size(256)
fn by_group(@builtin(workgroup_id) group_id: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
  let group = group_id.x + group_id.y * 32768u;
  let size = params.run;
  let runs = runs_of_row();
  let first_run = group * (TILE / size);
  if (first_run >= runs * params.rows) {
    return;
  }
  for (var i = lane; i < TILE; i += THREADS) {
    let run = first_run + i / size;
    let row = run / runs;
    let place = run % runs * size + i % size;
    var key = 0xffffffffu;
    var at = 0xffffffffu;  // behind every element
    if (row < params.rows && place < params.length) {
      key = key_of(row_start(row) + place * params.axis_stride);
      at = place;
    }
    tile_keys[i] = key;
    tile_places[i] = at;
  }
  for (var width = 2u; width <= size; width *= 2u) {
    for (var step = width / 2u; step > 0u; step /= 2u) {
      workgroupBarrier();
      for (var q = lane; q < TILE / 2u; q += THREADS) {
        let i = ((q & ~(step - 1u)) << 1u) | (q & (step - 1u));
        let j = i + step;
        let forward = (i & (size - 1u) & width) == 0u;
        let ki = tile_keys[i];
        let kj = tile_keys[j];
        let pi = tile_places[i];
        let pj = tile_places[j];
        let greater = ki > kj || (ki == kj && pi > pj);
        if (greater == forward) {
          tile_keys[i] = kj;
          tile_keys[j] = ki;
          tile_places[i] = pj;
          tile_places[j] = pi;
        }
      }
    }
  }
  workgroupBarrier();
  for (var i = lane; i < TILE; i += THREADS) {
    let run = first_run + i / size;
    let row = run / runs;
    let j = i % size;
    if (row < params.rows && j < params.keep && tile_places[i] != 0xffffffffu) {
      put(spot_of(row, run % runs), j, tile_keys[i], tile_places[i]);
    }
  }
}
