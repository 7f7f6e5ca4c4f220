// weft/weft.h - all of Weft but the C ABI and the interop header.
#pragma once

#include "weft/buffer.h"
#include "weft/device.h"
#include "weft/dtype.h"
#include "weft/error.h"
#include "weft/expr.h"
#include "weft/graph.h"
#include "weft/io.h"
#include "weft/kernel.h"
#include "weft/memory_report.h"
#include "weft/ops.h"
#include "weft/profiler.h"
#include "weft/shape.h"
#include "weft/stats.h"
#include "weft/stream.h"
#include "weft/tensor.h"
