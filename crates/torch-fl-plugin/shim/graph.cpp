// Captured graphs: the vendor's own object, which PyTorch has no interface for, reached by the addresses of its members.
// They are C++, so they are called here, where what they throw can be caught.
#include "fl.h"

#include <pybind11/pybind11.h>

#include <cstring>

using namespace fl;
using c10::MempoolId_t;

namespace {
// The object's size is the vendor's secret, and a few hundred bytes; it gets a page.
constexpr size_t SIZE = 4096;
constexpr auto ALIGNMENT = std::align_val_t(64);

template <class F>
F* as(void* address) {
  return reinterpret_cast<F*>(address);
}
void store(uint64_t* to, const MempoolId_t& id) {
  to[0] = id.first;
  to[1] = id.second;
}
}  // namespace

void* fl_graph_new(void* constructor, bool keep) {
  void* graph = nullptr;
  const auto status = guarded([&] {
    ensure_init();
    graph = ::operator new(SIZE, ALIGNMENT);
    std::memset(graph, 0, SIZE);
    as<void(void*, bool)>(constructor)(graph, keep);
  });
  if (status != 0 && graph) ::operator delete(std::exchange(graph, nullptr), ALIGNMENT);
  return graph;
}
int32_t fl_graph_drop(void* destructor, void* graph) {
  return guarded([&] {
    pybind11::gil_scoped_release nogil;
    as<void(void*)>(destructor)(graph);
    ::operator delete(graph, ALIGNMENT);
  });
}
int32_t fl_graph_begin(void* member, void* graph, uint64_t pool_first, uint64_t pool_second, int32_t mode) {
  return guarded([&] {
    pybind11::gil_scoped_release nogil;
    as<void(void*, MempoolId_t, int)>(member)(graph, MempoolId_t{pool_first, pool_second}, mode);
  });
}
int32_t fl_graph_call(void* member, void* graph) {
  return guarded([&] {
    pybind11::gil_scoped_release nogil;
    as<void(void*)>(member)(graph);
  });
}
int32_t fl_graph_pool(void* member, void* graph, uint64_t* id) {
  return guarded([&] { store(id, as<MempoolId_t(void*)>(member)(graph)); });
}
int32_t fl_pool_handle(void* function, uint64_t* id) {
  return guarded([&] { store(id, as<MempoolId_t()>(function)()); });
}
