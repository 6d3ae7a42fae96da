/*
 * void hearth_switch(void **save_sp, void *load_sp)
 *
 * Leaves the running stack, whose pointer goes to *save_sp, and goes on where
 * the stack `load_sp` was left. Unlike swapcontext() it makes no system call:
 * both stacks belong to one thread and share its signal mask.
 *
 * Saved: what a callee must keep by the System V ABI for x86-64, section
 * 3.2.1 (rbx, rbp, r12-r15, the control bits of mxcsr and of the x87 word).
 */
#if defined(__x86_64__)
	.text
	.globl	hearth_switch
	.hidden	hearth_switch
	.type	hearth_switch, @function
	.p2align 4
hearth_switch:
	.cfi_startproc
	pushq	%rbp
	.cfi_adjust_cfa_offset 8
	pushq	%rbx
	.cfi_adjust_cfa_offset 8
	pushq	%r12
	.cfi_adjust_cfa_offset 8
	pushq	%r13
	.cfi_adjust_cfa_offset 8
	pushq	%r14
	.cfi_adjust_cfa_offset 8
	pushq	%r15
	.cfi_adjust_cfa_offset 8
	subq	$8, %rsp
	.cfi_adjust_cfa_offset 8
	stmxcsr	(%rsp)
	fnstcw	4(%rsp)

	movq	%rsp, (%rdi)
	movq	%rsi, %rsp

	fldcw	4(%rsp)
	ldmxcsr	(%rsp)
	addq	$8, %rsp
	.cfi_adjust_cfa_offset -8
	popq	%r15
	.cfi_adjust_cfa_offset -8
	popq	%r14
	.cfi_adjust_cfa_offset -8
	popq	%r13
	.cfi_adjust_cfa_offset -8
	popq	%r12
	.cfi_adjust_cfa_offset -8
	popq	%rbx
	.cfi_adjust_cfa_offset -8
	popq	%rbp
	.cfi_adjust_cfa_offset -8
	ret
	.cfi_endproc
	.size	hearth_switch, .-hearth_switch

/*
 * Where a new stack starts: sapi.c puts the address of this label on it. The
 * stack pointer is 16-byte aligned here, as it must be before a call. The
 * return address is undefined on purpose: unwinders stop here.
 */
	.globl	hearth_stack_start
	.hidden	hearth_stack_start
	.type	hearth_stack_start, @function
	.p2align 4
hearth_stack_start:
	.cfi_startproc
	.cfi_undefined rip
	xorl	%ebp, %ebp
	call	hearth_stack_main
	ud2
	.cfi_endproc
	.size	hearth_stack_start, .-hearth_stack_start
#else
# error "switch.S: no context switch is written for this processor yet; Hearth runs on x86-64"
#endif

	.section .note.GNU-stack, "", @progbits
