# cython: language_level=3
"""The calls of `kernel_sync`, without ctypes: both are on the path of every flush that something waits for."""

from libc.stdint cimport int64_t, uint64_t

cdef extern from *:
    """
    #include <errno.h>
    #include <linux/aio_abi.h>
    #include <string.h>
    #include <sys/syscall.h>
    #include <unistd.h>

    static long klamm_io_submit(aio_context_t context, long count, struct iocb **blocks) {
        return syscall(SYS_io_submit, context, count, blocks);
    }
    static long klamm_io_getevents(aio_context_t context, long count, struct io_event *events) {
        long found;
        do {
            found = syscall(SYS_io_getevents, context, 0L, count, events, NULL);
        } while (found < 0 && errno == EINTR);
        return found;
    }
    static void klamm_io_destroy(aio_context_t context) {
        syscall(SYS_io_destroy, context);
    }
    static void klamm_fdsync(struct iocb *block, int handle, int eventfd, __u64 tag) {
        memset(block, 0, sizeof *block);
        block->aio_data = tag;
        block->aio_lio_opcode = IOCB_CMD_FDSYNC;
        block->aio_fildes = handle;
        block->aio_flags = IOCB_FLAG_RESFD;
        block->aio_resfd = eventfd;
    }
    """
    ctypedef unsigned long aio_context_t
    cdef struct iocb:
        pass
    cdef struct io_event:
        uint64_t data
        int64_t res
    long klamm_io_submit(aio_context_t context, long count, iocb **blocks) nogil
    long klamm_io_getevents(aio_context_t context, long count, io_event *events) nogil
    void klamm_io_destroy(aio_context_t context) nogil
    void klamm_fdsync(iocb *block, int handle, int eventfd, uint64_t tag)

cdef extern from "unistd.h" nogil:
    ssize_t read(int handle, void *into, size_t size)
    int close(int handle)

cdef enum:
    CAPACITY = 256  # that of `kernel_sync`


cdef class CompiledKernelSync:
    """Flushes in flight, and their results: as `KernelSync`, which says what each method does."""

    cdef aio_context_t _context
    cdef int _eventfd
    cdef long _under_way
    cdef iocb _blocks[CAPACITY]
    cdef iocb *_pointers[CAPACITY]
    cdef io_event _events[CAPACITY]

    def __init__(self, unsigned long context, int eventfd):
        cdef int number
        self._context = context
        self._eventfd = eventfd
        self._under_way = 0
        for number in range(CAPACITY):
            self._pointers[number] = &self._blocks[number]

    def fileno(self):
        return self._eventfd

    @property
    def room(self):
        return CAPACITY - self._under_way

    def submit(self, handles, tags):
        cdef long count = 0, taken
        for handle, tag in zip(handles, tags, strict=True):
            if count == CAPACITY:
                raise ValueError(f"more than {CAPACITY} files")
            klamm_fdsync(&self._blocks[count], handle, self._eventfd, tag)
            count += 1
        # The kernel copies the blocks before the call returns.
        with nogil:
            taken = klamm_io_submit(self._context, count, self._pointers)
        if taken < 0:
            taken = 0
        self._under_way += taken
        return taken

    def arrived(self):
        cdef uint64_t completions
        cdef long found, number
        cdef list outcomes = []
        if read(self._eventfd, &completions, sizeof(completions)) < 0:
            return outcomes
        found = klamm_io_getevents(self._context, CAPACITY, self._events)
        if found <= 0:
            return outcomes
        self._under_way -= found
        for number in range(found):
            outcomes.append((self._events[number].data, max(-self._events[number].res, 0)))
        return outcomes

    def close(self):
        with nogil:
            klamm_io_destroy(self._context)
            close(self._eventfd)
