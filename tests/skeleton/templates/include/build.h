#pragma once
// Which build these headers belong to.
#define TORCH_BUILD "@BUILD@"
