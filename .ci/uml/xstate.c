/* This library lets Debian's User Mode Linux (UML) run on a CPU with a larger register state than UML expects (AMX:
 * 11,008 bytes).
 *
 * UML saves and restores the vector registers of its processes with PTRACE_GETREGSET and PTRACE_SETREGSET, in a buffer
 * of fixed size. The host's kernel fills a buffer of any size, but it restores only from a buffer of the full size and
 * returns EFAULT otherwise. Then UML prints "userspace - ptrace set fp regs failed, errno = 14", and the node panics at
 * its first process. This library is preloaded into UML and completes the buffer with the current values of the other
 * registers.
 */
#include <errno.h>
#include <stdarg.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define XSTATE ((void *)0x202) /* NT_X86_XSTATE */

long ptrace(enum __ptrace_request request, ...)
{
    va_list arguments;
    va_start(arguments, request);
    pid_t pid = va_arg(arguments, pid_t);
    void *addr = va_arg(arguments, void *);
    void *data = va_arg(arguments, void *);
    va_end(arguments);

    static char state[65536]; /* Static is safe: UML calls this function from one thread only. */
    struct iovec whole = {state, sizeof state}, *given = data;
    if (request == PTRACE_SETREGSET && addr == XSTATE &&
        syscall(SYS_ptrace, PTRACE_GETREGSET, pid, XSTATE, &whole) == 0 && whole.iov_len > given->iov_len) {
        memcpy(state, given->iov_base, given->iov_len);
        data = &whole;
    }
    if (request == PTRACE_PEEKTEXT || request == PTRACE_PEEKDATA || request == PTRACE_PEEKUSER) {
        long word; /* The system call stores the value here; glibc's wrapper returns the value. */
        if (syscall(SYS_ptrace, request, pid, addr, &word) < 0)
            return -1;
        errno = 0;
        return word;
    }
    return syscall(SYS_ptrace, request, pid, addr, data);
}
