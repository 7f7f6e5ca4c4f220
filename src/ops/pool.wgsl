// One result a thread (four channels of it where V is a vec4), in the order of the result's memory. In front of this
// stand the aliases V (f32 or vec4<f32>) and Bits (u32 or vec4<u32>), CHANNELS_LAST, AVERAGE, x, out, element and store.
struct Params {
  count: u32, channels: u32, out_h: u32, out_w: u32,
  in_h: u32, in_w: u32, window_h: u32, window_w: u32,
  step_h: u32, step_w: u32, before_h: u32, before_w: u32, dilation_h: u32, dilation_w: u32,
  first_h: u32, first_w: u32, end_h: u32, end_w: u32,
  limit_h: u32, limit_w: u32, count_before: u32,
  x_offset: u32, x_n: u32, x_c: u32, x_h: u32, x_w: u32,
  out_offset: u32, zero: u32,
}

fn is_nan(x: V) -> vec_of_bool { return (bitcast<Bits>(x) & Bits(0x7fffffffu)) > Bits(0x7f800000u); }
fn larger(a: V, x: V) -> V { return select(select(a, x, is_nan(x) | (x > a)), a, is_nan(a)); }

// Elements [x, y) of a window that starts `start` (counted from before the padding) lie at or behind `low` and before
// `high`, on the same count.
fn elements(start: u32, window: u32, dilation: u32, low: u32, high: u32) -> vec2u {
  let begin = select(0u, (low - start + dilation - 1u) / dilation, low > start);
  let end = select(0u, (high - start + dilation - 1u) / dilation, high > start);
  return vec2u(min(begin, window), min(end, window));
}

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3u) {
  let i = linear_index(id);
  if (i >= params.count) { return; }
  var c: u32;
  var w: u32;
  var h: u32;
  var n: u32;
  if (CHANNELS_LAST) {
    c = i % params.channels;
    w = i / params.channels % params.out_w;
    let rest = i / params.channels / params.out_w;
    h = rest % params.out_h;
    n = rest / params.out_h;
  } else {
    w = i % params.out_w;
    h = i / params.out_w % params.out_h;
    let rest = i / params.out_w / params.out_h;
    c = rest % params.channels;
    n = rest / params.channels;
  }
  let start_h = h * params.step_h;
  let start_w = w * params.step_w;
  let in_h = elements(start_h, params.window_h, params.dilation_h, params.before_h, params.before_h + params.in_h);
  let in_w = elements(start_w, params.window_w, params.dilation_w, params.before_w, params.before_w + params.in_w);
  let base = params.x_offset + n * params.x_n + c * params.x_c;
  var total: V;
  if (AVERAGE) {
    total = V(0.0);
  } else {
    total = bitcast<V>(Bits(0xff800000u | params.zero));
  }
  let first_w = max(in_w.x, params.first_w);
  let end_w = min(in_w.y, params.end_w);
  for (var r = max(in_h.x, params.first_h); r < min(in_h.y, params.end_h); r++) {
    let line = base + (start_h + r * params.dilation_h - params.before_h) * params.x_h;
    for (var s = first_w; s < end_w; s++) {
      let v = element(line + (start_w + s * params.dilation_w - params.before_w) * params.x_w);
      if (AVERAGE) {
        total += v;
      } else {
        total = larger(total, v);
      }
    }
  }
  if (AVERAGE) {
    // Of the whole window, also where this is a part of one.
    let all_h = elements(start_h, params.window_h, params.dilation_h, params.before_h * params.count_before, params.limit_h);
    let all_w = elements(start_w, params.window_w, params.dilation_w, params.before_w * params.count_before, params.limit_w);
    let held = (all_h.y - min(all_h.x, all_h.y)) * (all_w.y - min(all_w.x, all_w.y));
    total = total / V(f32(max(held, 1u)));
  }
  store(i, total);
}
