/* Lets Debian's User Mode Linux run on a CPU whose register state is larger than it knows (AMX: 11,008 bytes).
 *
 * UML saves and restores its processes' vector registers with PTRACE_GETREGSET and PTRACE_SETREGSET in a buffer
 * of fixed size. The host's kernel reads into any buffer, but writes only from one of its own full size, and says
 * EFAULT otherwise: "userspace - ptrace set fp regs failed, errno = 14", and the node panics at its first process.
 * Preloaded into UML, this completes the buffer with what the process has in the registers beyond it.
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

    static char state[65536]; /* UML calls this from one thread */
    struct iovec whole = {state, sizeof state}, *given = data;
    if (request == PTRACE_SETREGSET && addr == XSTATE &&
        syscall(SYS_ptrace, PTRACE_GETREGSET, pid, XSTATE, &whole) == 0 && whole.iov_len > given->iov_len) {
        memcpy(state, given->iov_base, given->iov_len);
        data = &whole;
    }
    if (request == PTRACE_PEEKTEXT || request == PTRACE_PEEKDATA || request == PTRACE_PEEKUSER) {
        long word; /* the system call stores what glibc's wrapper returns */
        if (syscall(SYS_ptrace, request, pid, addr, &word) < 0)
            return -1;
        errno = 0;
        return word;
    }
    return syscall(SYS_ptrace, request, pid, addr, data);
}
