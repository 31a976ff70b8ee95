package postgres

import (
	"bytes"
	"context"
	"errors"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"github.com/jackc/pgx/v5"
)

// machine names the system whose process numbers this process sees: its boot, its
// namespace of processes, its name. Empty where that is not certain:
// then no other process is ever known to be gone.
var machine = sync.OnceValue(func() string {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	space, err2 := os.Readlink("/proc/self/ns/pid")
	self, err3 := os.Readlink("/proc/self")
	name, err4 := os.Hostname()
	if errors.Join(err, err2, err3, err4) != nil || len(boot) == 0 || self != strconv.Itoa(os.Getpid()) {
		return ""
	}
	return clean(strings.Join([]string{strings.TrimSpace(string(boot)), space, name}, " "))
})

// processGone reports whether a process of this machine is known to be gone, also
// while nobody has waited for it yet. One that cannot be asked, and one whose number
// belongs to another by now, count as living.
func processGone(pid int32) bool {
	if pid <= 0 {
		return false
	}
	p, err := os.FindProcess(int(pid))
	if err != nil {
		return errors.Is(err, os.ErrProcessDone)
	}
	defer func() { _ = p.Release() }()
	return errors.Is(p.Signal(syscall.Signal(0)), os.ErrProcessDone) || zombie(pid)
}

// zombie reports whether a process has ended, with all its threads, and is only kept
// until its parent asks how. That may take long where the parent is busy. Where there
// is no /proc nothing is known.
func zombie(pid int32) bool {
	raw, err := os.ReadFile("/proc/" + strconv.Itoa(int(pid)) + "/stat")
	if err != nil {
		return false
	}
	const threads = 17 // the 20th field; the first three end with the state, after a name in brackets
	fields := strings.Fields(string(raw[bytes.LastIndexByte(raw, ')')+1:]))
	return len(fields) > threads && fields[0] == "Z" && fields[threads] == "1"
}

// neighboursSQL lists the runners of the same machine. The address that the
// database sees tells the copies of a virtual machine apart.
const neighboursSQL = `SELECT id, process FROM runners
	WHERE id <> $1 AND machine = $2 AND machine <> '' AND address IS NOT DISTINCT FROM inet_client_addr()`

// buryGone removes the runners whose processes are known to be gone: those need
// no time to come back. Whoever watches is woken: what they ran is orphaned.
func (r *runner) buryGone(ctx context.Context, conn *pgx.Conn) error {
	found, err := conn.Query(ctx, neighboursSQL, r.id, machine())
	if err != nil {
		return err
	}
	var id string
	var pid int32
	var gone []string
	if _, err := pgx.ForEachRow(found, []any{&id, &pid}, func() error {
		if processGone(pid) {
			gone = append(gone, id)
		}
		return nil
	}); err != nil || len(gone) == 0 {
		return err
	}
	if _, err := conn.Exec(ctx, "DELETE FROM runners WHERE id = ANY ($1)", gone); err != nil {
		return err
	}
	r.store.watch.committed(false)
	_, err = conn.Exec(ctx, "SELECT pg_notify($1, $2)", runnerChannel, r.id)
	return err
}
