
/* A jump leaves the stack and all registers of arguments as they are. r11 belongs to nobody at a call. */
#define FORWARD(place, name) \
    __asm__(".pushsection torchfl_shim, \"ax\", @progbits\n" \
            "    .p2align 4\n" \
            "    .globl " name "\n" \
            "    .type " name ", @function\n" \
            name ":\n" \
            "    jmp *torchfl_shim_table + 8 * " #place "(%rip)\n" \
            "    .hidden torchfl_shim_look_" #place "\n" \
            "    .globl torchfl_shim_look_" #place "\n" \
            "torchfl_shim_look_" #place ":\n" \
            "    push $" #place "\n" \
            "    jmp torchfl_shim_look_up\n" \
            "    .size " name ", . - " name "\n" \
            ".popsection\n");

FORWARDED(FORWARD)

/* The stack holds the place and the caller's address. Kept are all registers that may hold an argument (psABI 3.2.3),
 * of the vector registers 16 bytes: rax counts those in use of a variadic call, r10 is the static chain. */
__asm__(".pushsection torchfl_shim, \"ax\", @progbits\n"
        "    .p2align 4\n"
        "torchfl_shim_look_up:\n"
        "    push %rax\n"
        "    push %rdi\n"
        "    push %rsi\n"
        "    push %rdx\n"
        "    push %rcx\n"
        "    push %r8\n"
        "    push %r9\n"
        "    push %r10\n"
        "    sub $128, %rsp\n"
        "    movups %xmm0, (%rsp)\n"
        "    movups %xmm1, 16(%rsp)\n"
        "    movups %xmm2, 32(%rsp)\n"
        "    movups %xmm3, 48(%rsp)\n"
        "    movups %xmm4, 64(%rsp)\n"
        "    movups %xmm5, 80(%rsp)\n"
        "    movups %xmm6, 96(%rsp)\n"
        "    movups %xmm7, 112(%rsp)\n"
        "    mov 192(%rsp), %rdi\n"
        "    call torchfl_shim_find\n"
        "    mov %rax, %r11\n"
        "    movups (%rsp), %xmm0\n"
        "    movups 16(%rsp), %xmm1\n"
        "    movups 32(%rsp), %xmm2\n"
        "    movups 48(%rsp), %xmm3\n"
        "    movups 64(%rsp), %xmm4\n"
        "    movups 80(%rsp), %xmm5\n"
        "    movups 96(%rsp), %xmm6\n"
        "    movups 112(%rsp), %xmm7\n"
        "    add $128, %rsp\n"
        "    pop %r10\n"
        "    pop %r9\n"
        "    pop %r8\n"
        "    pop %rcx\n"
        "    pop %rdx\n"
        "    pop %rsi\n"
        "    pop %rdi\n"
        "    pop %rax\n"
        "    add $8, %rsp\n"
        "    jmp *%r11\n"
        ".popsection\n");
