// SPDX-License-Identifier: GPL-2.0-only
#include "user/rules/operation.h"

#include <errno.h>
#include <stddef.h>

#include <bpf/libbpf.h>
#include <linux/bpf.h>

const struct operation_hook operation_hooks[] = {
	{ "chaos_o_open", "security_file_open", 1 << CHAOS_OPEN },
	{ "chaos_o_create", "security_path_mknod", 1 << CHAOS_CREATE },
	{ "chaos_o_mkdir", "security_path_mkdir", 1 << CHAOS_CREATE },
	{ "chaos_o_access", "security_file_permission", 1 << CHAOS_READ | 1 << CHAOS_WRITE },
	{ "chaos_o_mmap", "security_mmap_file", 1 << CHAOS_MMAP },
	{ "chaos_o_memory", "security_vm_enough_memory_mm", 1 << CHAOS_MEMORY },
	{ "chaos_o_connect", "security_socket_connect", 1 << CHAOS_CONNECT },
	{ "chaos_o_send", "security_socket_sendmsg", 1 << CHAOS_SEND },
	{ "chaos_o_receive", "security_socket_recvmsg", 1 << CHAOS_RECEIVE },
	{ "chaos_o_socket", "security_socket_create", 1 << CHAOS_SOCKET },
	{ "chaos_o_ioctl", "security_file_ioctl", 1 << CHAOS_IOCTL },
	{ "chaos_o_task", "security_task_alloc", 1 << CHAOS_FORK | 1 << CHAOS_THREAD },
	{ "chaos_o_exec", "security_bprm_check", 1 << CHAOS_EXEC },
	{ NULL, NULL, 0 },
};

const char *operation_missing(enum chaos_operation operation)
{
	for (const struct operation_hook *hook = operation_hooks; hook->program; hook++) {
		if (hook->operations & 1U << operation &&
		    libbpf_find_vmlinux_btf_id(hook->function, BPF_MODIFY_RETURN) <= 0)
			return hook->function;
	}
	return NULL;
}

/* Of the rest, nothing is known but who asks. */
bool operation_has_path(enum chaos_operation operation)
{
	return operation == CHAOS_OPEN || operation == CHAOS_CREATE || operation == CHAOS_READ ||
	       operation == CHAOS_WRITE || operation == CHAOS_MMAP || operation == CHAOS_IOCTL ||
	       operation == CHAOS_EXEC;
}

const char *operation_note(enum chaos_operation operation, int error)
{
	static const char *const notes[CHAOS_OPERATION_COUNT] = {
		[CHAOS_OPEN] = "a file that open() is to make is made first, and then cannot be opened; O_PATH opens "
			       "nothing, and to execute a file is not to open it",
		[CHAOS_CREATE] = "open() with O_TMPFILE, link(), symlink() and rename() make no file in this sense",
		[CHAOS_READ] = "what is mapped (mmap) is read without asking, directories are read as well, and a "
			       "reader that sleeps already is not woken",
		[CHAOS_WRITE] = "what is mapped (mmap) is written without asking; fsync() and ftruncate() do not fail",
		[CHAOS_MMAP] = "malloc() goes on with brk() when mmap() fails: to have it fail, too, use the operation "
			       "'memory'; a program that starts cannot map its libraries and ends",
		[CHAOS_MEMORY] = "mappings with MAP_NORESERVE or PROT_NONE pass, and what is mapped already stays; a "
				 "stack that cannot grow ends its process with SIGSEGV",
		[CHAOS_SEND] = "sendfile() and splice() to a socket pass on kernels up to 6.1",
		[CHAOS_RECEIVE] = "what has arrived stays, and is delivered when the rule has ended; splice() from a "
				  "socket passes, and a reader that sleeps already is not woken",
		[CHAOS_SOCKET] = "accept() gets its socket all the same",
		[CHAOS_EXEC] = "a script counts once, whatever interpreter it names; an interpreter that is given the "
			       "file only reads it",
	};

	if (operation == CHAOS_SEND && error == EPIPE)
		return "no SIGPIPE comes with it; sendfile() and splice() to a socket pass on kernels up to 6.1";
	if (operation == CHAOS_MEMORY && error != ENOMEM)
		return "on kernels up to 6.1 any error of 'memory' becomes ENOMEM";
	if (operation == CHAOS_CONNECT && error == EINPROGRESS)
		return "nothing is under way: who waits is told at once that the socket is ready, and using it is "
		       "ENOTCONN or EPIPE";
	return notes[operation];
}
