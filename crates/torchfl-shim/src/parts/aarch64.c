
/* A branch leaves the stack and all registers of arguments as they are. x16 and x17 belong to nobody at a call. */
#define FORWARD(place, name) \
    __asm__(".pushsection torchfl_shim, \"ax\", %progbits\n" \
            "    .p2align 4\n" \
            "    .globl " name "\n" \
            "    .type " name ", %function\n" \
            name ":\n" \
            "    adrp x16, torchfl_shim_table + 8 * " #place "\n" \
            "    ldr x16, [x16, #:lo12:torchfl_shim_table + 8 * " #place "]\n" \
            "    br x16\n" \
            "    .hidden torchfl_shim_look_" #place "\n" \
            "    .globl torchfl_shim_look_" #place "\n" \
            "torchfl_shim_look_" #place ":\n" \
            "    movz x17, #(" #place " & 0xffff)\n" \
            "    movk x17, #(" #place " >> 16), lsl #16\n" \
            "    b torchfl_shim_look_up\n" \
            "    .size " name ", . - " name "\n" \
            ".popsection\n");

FORWARDED(FORWARD)

/* x17 is the place. Kept are all registers that may hold an argument (AAPCS64 6.8.2), of the vector registers 16 bytes,
 * x8, which says where a large result goes, and the caller's address. */
__asm__(".pushsection torchfl_shim, \"ax\", %progbits\n"
        "    .p2align 4\n"
        "torchfl_shim_look_up:\n"
        "    stp x29, x30, [sp, #-224]!\n"
        "    mov x29, sp\n"
        "    stp x0, x1, [sp, #16]\n"
        "    stp x2, x3, [sp, #32]\n"
        "    stp x4, x5, [sp, #48]\n"
        "    stp x6, x7, [sp, #64]\n"
        "    str x8, [sp, #80]\n"
        "    stp q0, q1, [sp, #96]\n"
        "    stp q2, q3, [sp, #128]\n"
        "    stp q4, q5, [sp, #160]\n"
        "    stp q6, q7, [sp, #192]\n"
        "    mov x0, x17\n"
        "    bl torchfl_shim_find\n"
        "    mov x16, x0\n"
        "    ldp x0, x1, [sp, #16]\n"
        "    ldp x2, x3, [sp, #32]\n"
        "    ldp x4, x5, [sp, #48]\n"
        "    ldp x6, x7, [sp, #64]\n"
        "    ldr x8, [sp, #80]\n"
        "    ldp q0, q1, [sp, #96]\n"
        "    ldp q2, q3, [sp, #128]\n"
        "    ldp q4, q5, [sp, #160]\n"
        "    ldp q6, q7, [sp, #192]\n"
        "    ldp x29, x30, [sp], #224\n"
        "    br x16\n"
        ".popsection\n");
