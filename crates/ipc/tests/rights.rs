//! What the receiver of a descriptor can do with it, asked of the kernel.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

use std::fs::OpenOptions;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::ptr::null_mut;

use ipc::layout::{Ack, Ctl, Est, Layout, Resp};
use ipc::region::{Access, Bytes, Map, Shared};
use ipc::server_side::{PoolMemory, WorkerMemory};
use rustix::fs::{FallocateFlags, SealFlags, fallocate, fcntl_add_seals, ftruncate};
use rustix::io::Errno;
use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap, mprotect, munmap};

const LAYOUT: Layout = Layout {
    reactors: 1,
    slots_per_reactor: 64,
    request_area: 4096,
};

fn refused(result: std::io::Result<impl Sized>) {
    assert_eq!(
        result.err().and_then(|e| e.raw_os_error()),
        Some(Errno::PERM.raw_os_error())
    );
}

/// Nobody changes the size, or the seals.
fn size_is_sealed(fd: BorrowedFd<'_>, len: usize) {
    assert_eq!(ftruncate(fd, len as u64 - 1), Err(Errno::PERM));
    assert_eq!(ftruncate(fd, 0), Err(Errno::PERM));
    assert_eq!(ftruncate(fd, len as u64 + 1), Err(Errno::PERM));
    assert_eq!(fcntl_add_seals(fd, SealFlags::WRITE), Err(Errno::PERM));
}

/// No way of writing is left to who has the descriptor.
fn is_read_only(fd: BorrowedFd<'_>, len: usize) {
    size_is_sealed(fd, len);
    refused(Bytes::new(fd, len, Access::ReadWrite));
    let reopened = OpenOptions::new()
        .read(true)
        .write(true)
        .open(format!("/proc/self/fd/{}", fd.as_raw_fd()))
        .unwrap();
    refused(Bytes::new(reopened.as_fd(), len, Access::ReadWrite));
    assert_eq!(rustix::io::pwrite(fd, &[1], 0), Err(Errno::PERM));
    assert_eq!(
        fallocate(
            fd,
            FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE,
            0,
            4096
        ),
        Err(Errno::PERM)
    );

    // SAFETY: a fresh mapping at an address of the kernel's choice.
    let map = unsafe { mmap(null_mut(), len, ProtFlags::READ, MapFlags::SHARED, fd, 0) }.unwrap();
    // SAFETY: our mapping; nothing refers into it.
    let change = unsafe { mprotect(map, len, MprotectFlags::READ | MprotectFlags::WRITE) };
    assert_eq!(change, Err(Errno::ACCESS));
    // SAFETY: as above.
    unsafe { munmap(map, len) }.unwrap();
}

fn is_writable<T: Shared>(fd: BorrowedFd<'_>) {
    size_is_sealed(fd, size_of::<T>());
    Map::<T>::open(fd, Access::ReadWrite).unwrap();
}

#[test]
fn workers_write_what_they_must_and_nothing_else() {
    let pool = PoolMemory::create(LAYOUT).unwrap();
    let worker = WorkerMemory::create().unwrap();
    is_writable::<Ctl>(pool.fds().ctl.as_fd());
    is_writable::<Resp>(worker.resp_fd());
    is_read_only(pool.fds().est.as_fd(), size_of::<Est>());
    is_read_only(pool.fds().req.as_fd(), LAYOUT.request_bytes());
    is_read_only(worker.ack_fd(), size_of::<Ack>());
}

#[test]
fn a_mapping_can_be_kept_from_children() {
    let pool = PoolMemory::create(LAYOUT).unwrap();
    let map = Map::<Ctl>::open(pool.fds().ctl.as_fd(), Access::ReadWrite).unwrap();
    map.bytes().keep_from_children().unwrap();
    let address = format!("{:x}-", std::ptr::from_ref::<Ctl>(&map).addr());
    let smaps = std::fs::read_to_string("/proc/self/smaps").unwrap();
    let flags = smaps
        .lines()
        .skip_while(|line| !line.starts_with(&address))
        .find(|line| line.starts_with("VmFlags:"))
        .unwrap();
    assert!(flags.split(' ').any(|flag| flag == "dc"), "{flags}");
}

#[test]
#[should_panic(expected = "read-only")]
fn a_write_to_a_read_only_mapping_is_a_panic_not_a_fault() {
    let pool = PoolMemory::create(LAYOUT).unwrap();
    Bytes::new(pool.fds().req.as_fd(), 4096, Access::Read)
        .unwrap()
        .copy_in(0, &[1]);
}
