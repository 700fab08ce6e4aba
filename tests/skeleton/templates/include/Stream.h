#pragma once
// Only the fork has this header.
#define C10_@KEY@_STREAM 1
