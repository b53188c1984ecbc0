/* Lets user-mode Linux run on a processor with more registers than it keeps.
 *
 * It saves a guest program's registers in a buffer of fixed size and sets them again from there. The host takes them only
 * in full (xstateregs_set in arch/x86/kernel/fpu/regset.c of Linux 6.1), and those of AMX alone are 8 KiB: setting fails,
 * and the guest's kernel panics (put_fp_registers). This stands before the C library's ptrace() in the guest's kernel and
 * completes what is set with what the program has now. No guest program uses AMX: its kernel has no call that asks for it.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <elf.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/types.h>
#include <sys/uio.h>

#ifndef NT_X86_XSTATE
#define NT_X86_XSTATE 0x202
#endif

typedef long (*ptrace_call)(int, pid_t, void *, void *);

long ptrace(enum __ptrace_request request, ...)
{
    static ptrace_call libc_ptrace;
    static _Alignas(64) unsigned char all[1 << 17];
    __builtin_va_list words;
    __builtin_va_start(words, request);
    pid_t process = __builtin_va_arg(words, pid_t);
    void *address = __builtin_va_arg(words, void *);
    void *data = __builtin_va_arg(words, void *);
    __builtin_va_end(words);
    if (!libc_ptrace)
        libc_ptrace = (ptrace_call)dlsym(RTLD_NEXT, "ptrace");
    if ((int)request == PTRACE_SETREGSET && (unsigned long)address == NT_X86_XSTATE) {
        struct iovec given = *(struct iovec *)data, whole = {all, sizeof all};
        if (libc_ptrace(PTRACE_GETREGSET, process, address, &whole) == 0 && given.iov_len < whole.iov_len) {
            memcpy(all, given.iov_base, given.iov_len);
            return libc_ptrace(request, process, address, &whole);
        }
    }
    return libc_ptrace(request, process, address, data);
}
