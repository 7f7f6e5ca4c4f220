// Sort, argsort and topk.
#include <gtest/gtest.h>
