
#define REFUSE(number, name) \
    _Noreturn void torchfl_shim_refuse_##number(void) __asm__(name); \
    _Noreturn void torchfl_shim_refuse_##number(void) { end((const char *const[]){"torch_fl: ", name, WHY, 0}); }
REFUSED(REFUSE)
