// The C boundary between the shim and Rust (src/ffi.rs says the same in Rust). No exception crosses it: functions that
// can fail set the Python error and return -1.
#pragma once
#include <cstdint>

typedef struct _object PyObject;

extern "C" {
// What an operator does with its arguments and which kernel it gets. `kinds` has one byte an argument.
struct FlPlan {
  const uint8_t* kinds;
  uint16_t arguments;
  uint16_t returns;
  int16_t signature;  // index into the generated table; -1: boxed only
  uint8_t way;
  bool pass;          // a view: the target's kernel runs on the flagos tensor itself
  bool writes;        // some argument is written
  bool mixed;         // tensors of other devices may come along
  bool grad;          // the kernel asks whether autograd wants gradients
  uint8_t host_returns;  // results that are tensors of the host, as bits
};
enum { FL_OTHER, FL_TENSOR, FL_LIST, FL_OPT_LIST, FL_DEVICE, FL_GENERATOR, FL_STORAGE, FL_STREAM, FL_WRITE = 0x80 };
enum { FL_BOXED, FL_TYPED, FL_CPU, FL_AUTOCAST_LOWER, FL_AUTOCAST_FP32, FL_AUTOCAST_DTYPE, FL_AUTOCAST_PROMOTE,
       FL_AUTOCAST_BANNED };
// Which kernels an operator has: the target's, one bit for each functionality, then the aliases.
enum { FL_DENSE = 1, FL_SPARSE = 2, FL_SPARSE_CSR = 4, FL_QUANTIZED = 8, FL_NESTED = 16, FL_COMPOSITE_EXPLICIT = 32,
       FL_COMPOSITE_NON_FUNCTIONAL = 64, FL_COMPOSITE_IMPLICIT = 128, FL_CLAIMED = 256, FL_ON_CPU = 512 };

// In Rust.
void fl_log(const char* name, const char* overload, uint8_t way);
const struct FlPlan* fl_late_plan(const char* schema);  // null: the schema cannot be read
bool fl_is_foreign_kernel(const char* name);             // on PrivateUse1, and not of PyTorch itself

// In the shim. Where it can fail: -1 or null, with the Python error set.
typedef void (*FlVisit)(void* context, const char* schema, uint32_t facts);
int32_t fl_operators(FlVisit visit, void* context);
int32_t fl_install(uint32_t index, uint32_t functionality, const FlPlan* plan);
int32_t fl_install_rest(void);
int32_t fl_install_autocast(const char* name, const char* overload, uint8_t policy);
void fl_set_logging(bool on);

PyObject* fl_claimed(void);  // what of PrivateUse1 is taken, as text; empty: nothing
int32_t fl_init(bool host);
int32_t fl_ensure_init(void);
int32_t fl_device_count(void);
int32_t fl_current_device(int32_t* i);
int32_t fl_set_device(int32_t i);
int32_t fl_synchronize(int32_t i);  // a negative index: the current device
PyObject* fl_default_generator(int32_t i);
// A graph of the vendor's; the first argument is the address of one of its functions.
void* fl_graph_new(void* constructor, bool keep);
int32_t fl_graph_drop(void* destructor, void* graph);
int32_t fl_graph_begin(void* member, void* graph, uint64_t pool_first, uint64_t pool_second, int32_t mode);
int32_t fl_graph_call(void* member, void* graph);
int32_t fl_graph_pool(void* member, void* graph, uint64_t* id);
int32_t fl_pool_handle(void* function, uint64_t* id);

PyObject* fl_to_target(PyObject* tensor);
PyObject* fl_from_target(PyObject* tensor);
PyObject* fl_from_pointer(void* p, uint64_t bytes, int32_t device, void (*release)(void*), void* context);
}
