package bolt_test

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"sync"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// faultDisk is the disk under a file, as far as one thread uses that file: the kernel
// shows it each write and sync of the thread before it is made. It knows what has
// reached the disk, and lets syncs fail as Linux does: what should have been synced
// is lost, is still what everybody reads, and no later sync tries it again.
type faultDisk struct {
	path string

	mu    sync.Mutex
	image []byte     // what has reached the disk
	dirty [][2]int64 // written since the last sync, begin and end
	syncs int
	fail  func(n int) bool // whether the n-th sync fails
}

// The layout of the kernel's struct seccomp_notif and seccomp_notif_resp.
type notif struct {
	id    uint64
	pid   uint32
	flags uint32
	nr    int32
	arch  uint32
	ip    uint64
	args  [6]uint64
}

type notifResp struct {
	id    uint64
	val   int64
	err   int32
	flags uint32
}

// watched are the system calls that change a file or make it durable.
var watched = []uint32{unix.SYS_PWRITE64, unix.SYS_FDATASYNC, unix.SYS_FSYNC}

// onFaultDisk runs f in a thread of its own whose writes to a file go through d. The
// thread ends with f.
func onFaultDisk(t *testing.T, d *faultDisk, f func()) {
	t.Helper()
	listener := make(chan int, 1)
	failed := make(chan error, 1)
	over := make(chan struct{})
	go func() {
		defer close(over)
		runtime.LockOSThread() // and never unlocked: the filter stays with the thread
		fd, err := listen()
		if err != nil {
			failed <- err
			return
		}
		listener <- fd
		f()
	}()
	select {
	case err := <-failed:
		skip(t, "needs seccomp with a listener", err)
	case fd := <-listener:
		answered := make(chan struct{})
		go func() {
			defer close(answered)
			d.answer(t, fd, over)
		}()
		<-answered
		if err := unix.Close(fd); err != nil {
			t.Error(err)
		}
	}
}

// listen installs the filter in this thread.
func listen() (fd int, err error) {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return 0, err
	}
	filter := []unix.SockFilter{{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS}} // the number of the call
	for i, nr := range watched {
		filter = append(filter, unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jt: uint8(len(watched) - i), K: nr})
	}
	filter = append(filter,
		unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
		unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_USER_NOTIF})
	prog := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	n, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_NEW_LISTENER, uintptr(unsafe.Pointer(&prog)))
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}

// answer answers the calls of the thread until it is over.
func (d *faultDisk) answer(t *testing.T, fd int, over <-chan struct{}) {
	for {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 20)
		if err != nil && !errors.Is(err, unix.EINTR) {
			t.Errorf("waiting for a call: %v", err)
			return
		}
		if n <= 0 {
			select {
			case <-over:
				return
			default:
				continue
			}
		}
		var call notif
		if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SECCOMP_IOCTL_NOTIF_RECV, uintptr(unsafe.Pointer(&call))); errno != 0 {
			select {
			case <-over:
				return
			default:
				continue
			}
		}
		resp := notifResp{id: call.id, flags: unix.SECCOMP_USER_NOTIF_FLAG_CONTINUE}
		allowed, undo := d.allows(&call)
		if !allowed {
			resp = notifResp{id: call.id, err: -int32(unix.EIO)}
		}
		_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SECCOMP_IOCTL_NOTIF_SEND, uintptr(unsafe.Pointer(&resp)))
		switch errno {
		case 0:
		case unix.ENOENT: // a signal came first, Go's own to a busy thread: the call is made once more
			undo()
		default:
			t.Errorf("answering a call: %v", errno)
			return
		}
	}
}

// allows notes a call that is about to be made; false when it fails instead. undo takes that
// back, of one that is not made after all.
func (d *faultDisk) allows(call *notif) (ok bool, undo func()) {
	if to, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", call.args[0])); err != nil || to != d.path {
		return true, func() {}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if uint32(call.nr) == unix.SYS_PWRITE64 {
		d.dirty = append(d.dirty, [2]int64{int64(call.args[3]), int64(call.args[3] + call.args[2])})
		return true, func() {} // twice is as good as once
	}
	dirty, image := d.dirty, slices.Clone(d.image)
	undo = func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.syncs--
		d.dirty, d.image = append(dirty, d.dirty...), image
	}
	d.syncs++
	d.dirty = nil
	if d.fail != nil && d.fail(d.syncs) {
		return false, undo
	}
	now, err := os.ReadFile(d.path)
	if err != nil {
		return false, undo
	}
	d.image = append(d.image, make([]byte, max(0, len(now)-len(d.image)))...)
	for _, at := range dirty {
		copy(d.image[at[0]:at[1]], now[at[0]:])
	}
	return true, undo
}

// left is what a loss of power would leave.
func (d *faultDisk) left() []byte {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.image)
}
