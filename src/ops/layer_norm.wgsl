// The mean of a row and the sum of its centred squares; see RowOp. Pieces join as in Chan, Golub and LeVeque, "Updating
// formulae and a pairwise algorithm for computing sample variances" (1979): no difference of large squares anywhere.
// Elements count from the row's first one (RowOp::from_first), and so does the mean: a small spread on a large mean is lost
// neither in the rounding of large sums nor in that of the mean.
fn none() -> f32 { return 0.0; }
fn first(a: f32, x: f32) -> f32 { return a + x; }
fn first_4(x: vec4<f32>) -> f32 { return (x.x + x.y) + (x.z + x.w); }
fn first_all(a: f32, b: f32) -> f32 { return a + b; }
fn first_of(a: f32, count: f32) -> f32 { return a / count; }
fn merge_first(a: f32, piece: f32, count: f32) -> f32 { return a + piece * count; }

fn second(x: f32, m: f32) -> f32 { return (x - m) * (x - m); }
fn merge_second(s: f32, piece: vec2<f32>, count: f32, m: f32) -> f32 {
  return s + (piece.y + count * second(piece.x, m));
}
fn scale_of(s: f32) -> f32 { return 1.0 / sqrt(s / f32(params.length) + params.eps); }
