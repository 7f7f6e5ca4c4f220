// A box blur: each pixel becomes the mean of those within `radius` of it, as far as the image goes.
//
//   weft run examples/blur.wgsl image=in.npy --out result:float32:1024,1024 --param width=1024 --param radius=3 -o result=out.npy

struct Params { width: i32, radius: i32 }

@group(0) @binding(0) var<storage, read> image: array<f32>;
@group(0) @binding(1) var<storage, read_write> result: array<f32>;

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
  let pixel = linear_index(id);  // of Weft: right however many workgroups there are
  if (pixel >= arrayLength(&result)) { return; }
  let height = i32(arrayLength(&image)) / params.width;
  let row = i32(pixel) / params.width;
  let column = i32(pixel) % params.width;
  var sum = 0.0;
  var count = 0.0;
  for (var y = max(row - params.radius, 0); y <= min(row + params.radius, height - 1); y++) {
    for (var x = max(column - params.radius, 0); x <= min(column + params.radius, params.width - 1); x++) {
      sum += image[y * params.width + x];
      count += 1.0;
    }
  }
  result[pixel] = sum / count;
}
