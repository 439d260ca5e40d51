// SPDX-License-Identifier: GPL-2.0-only
#include "user/inside/errno_place.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define NAME        "__errno_location"
#define CODE_LEN    32
#define MAX_PHDRS   64
#define MAX_DYNAMIC 128
#define MAX_CHAIN   4096 /* steps in a chain of the hash table */

/* ---- the code --------------------------------------------------------------------------------------------------- */

#ifdef __x86_64__

/* Code that is read instruction by instruction. */
struct reader {
	const uint8_t *code;
	int len, at;
};

static bool takes(struct reader *r, const char *bytes, int count)
{
	if (r->at + count > r->len || memcmp(r->code + r->at, bytes, count) != 0)
		return false;
	r->at += count;
	return true;
}

static int32_t number(struct reader *r, int bytes)
{
	int32_t value = 0;

	if (r->at + bytes <= r->len)
		memcpy(&value, r->code + r->at, bytes);
	r->at += bytes;
	return bytes == 1 ? (int8_t)value : value;
}

/* The offset is in the instruction, or in a word that it reads. */
static bool takes_offset(struct reader *r, bool adds, int64_t *offset, int64_t *slot)
{
	if (takes(r, adds ? "\x48\x03\x05" : "\x48\x8b\x05", 3)) { /* add or mov x(%rip),%rax */
		*slot = number(r, 4);
		*slot += r->at;
		return true;
	}
	if (!adds && takes(r, "\x48\xc7\xc0", 3)) { /* mov $x,%rax */
		*offset = number(r, 4);
		return true;
	}
	if (adds && takes(r, "\x48\x83\xc0", 3)) { /* add $x,%rax */
		*offset = number(r, 1);
		return true;
	}
	if (adds && (takes(r, "\x48\x05", 2) || takes(r, "\x48\x8d\x80", 3))) { /* add $x,%rax; lea x(%rax),%rax */
		*offset = number(r, 4);
		return true;
	}
	return false;
}

int errno_place_code(const uint8_t *code, int len, int64_t *offset, int64_t *slot)
{
	static const char mov_thread[] = "\x64\x48\x8b\x04\x25\0\0\0\0", add_thread[] = "\x64\x48\x03\x04\x25\0\0\0\0";
	struct reader r = { .code = code, .len = len };

	*offset = *slot = 0;
	takes(&r, "\xf3\x0f\x1e\xfa", 4); /* endbr64 */
	if (takes(&r, mov_thread, 9)) {
		if (!takes_offset(&r, true, offset, slot))
			return -EOPNOTSUPP;
	} else if (!takes_offset(&r, false, offset, slot) || !takes(&r, add_thread, 9)) {
		return -EOPNOTSUPP;
	}
	return takes(&r, "\xc3", 1) ? 0 : -EOPNOTSUPP;
}

#else

int errno_place_code(const uint8_t *code, int len, int64_t *offset, int64_t *slot)
{
	(void)code;
	(void)len;
	*offset = *slot = 0;
	return -EOPNOTSUPP;
}

#endif

/* ---- the process ------------------------------------------------------------------------------------------------- */

/* What is not there reads as zeroes and is false. */
static bool get(int memory, uint64_t address, void *to, size_t size)
{
	memset(to, 0, size);
	return pread(memory, to, size, (off_t)address) == (ssize_t)size;
}

static int place_of_function(int memory, uint64_t function, int64_t *offset)
{
	uint8_t code[CODE_LEN];
	int64_t slot;
	int ret;

	if (!get(memory, function, code, sizeof(code)))
		return -EFAULT;
	ret = errno_place_code(code, sizeof(code), offset, &slot);
	if (!ret && slot && !get(memory, function + slot, offset, sizeof(*offset)))
		ret = -EFAULT;
	return ret;
}

/* ---- libraries: what they export, by the hash table that the dynamic linker uses ---- */

struct image {
	int memory;
	uint64_t bias; /* what is added to the addresses of the file */
	uint64_t hash, symbols, strings;
};

/* glibc has made these addresses of the process already, musl leaves them as they are. */
static uint64_t absolute(const struct image *image, uint64_t address)
{
	return address < image->bias ? address + image->bias : address;
}

static bool read_dynamic(struct image *image, uint64_t at)
{
	Elf64_Dyn entry;

	for (int i = 0; i < MAX_DYNAMIC; i++) {
		if (!get(image->memory, at + i * sizeof(entry), &entry, sizeof(entry)) || entry.d_tag == DT_NULL)
			break;
		if (entry.d_tag == DT_GNU_HASH)
			image->hash = absolute(image, entry.d_un.d_ptr);
		else if (entry.d_tag == DT_SYMTAB)
			image->symbols = absolute(image, entry.d_un.d_ptr);
		else if (entry.d_tag == DT_STRTAB)
			image->strings = absolute(image, entry.d_un.d_ptr);
	}
	return image->hash && image->symbols && image->strings;
}

/* A library or program whose beginning is mapped at `base`. */
static bool read_image(struct image *image, uint64_t base)
{
	Elf64_Ehdr header;
	uint64_t dynamic = 0;
	bool loaded = false;

	if (!get(image->memory, base, &header, sizeof(header)) || memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 ||
	    header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_phentsize != sizeof(Elf64_Phdr))
		return false;
	for (int i = 0; i < header.e_phnum && i < MAX_PHDRS; i++) {
		Elf64_Phdr p;

		if (!get(image->memory, base + header.e_phoff + i * sizeof(p), &p, sizeof(p)))
			return false;
		if (p.p_type == PT_LOAD && p.p_offset == 0 && !loaded) {
			image->bias = base - p.p_vaddr;
			loaded = true;
		}
		if (p.p_type == PT_DYNAMIC)
			dynamic = p.p_vaddr;
	}
	return loaded && dynamic && read_dynamic(image, image->bias + dynamic);
}

static uint32_t gnu_hash(const char *name)
{
	uint32_t hash = 5381;

	for (; *name; name++)
		hash = hash * 33 + (unsigned char)*name;
	return hash;
}

/* The address of the function if the symbol of that index is it, and defined here; else 0. */
static uint64_t function_of(const struct image *image, uint32_t index)
{
	char name[sizeof(NAME)];
	Elf64_Sym symbol;

	if (!get(image->memory, image->symbols + index * sizeof(symbol), &symbol, sizeof(symbol)) ||
	    symbol.st_shndx == SHN_UNDEF || ELF64_ST_TYPE(symbol.st_info) != STT_FUNC ||
	    !get(image->memory, image->strings + symbol.st_name, name, sizeof(name)) ||
	    memcmp(name, NAME, sizeof(name)) != 0)
		return 0;
	return image->bias + symbol.st_value;
}

static uint64_t exported_function(const struct image *image)
{
	const uint32_t hash = gnu_hash(NAME);
	uint32_t head[4], index, link; /* buckets, first symbol, words of the filter, its shift */
	uint64_t buckets, chains, found;

	if (!get(image->memory, image->hash, head, sizeof(head)) || !head[0])
		return 0;
	buckets = image->hash + sizeof(head) + head[2] * sizeof(uint64_t);
	chains = buckets + head[0] * sizeof(uint32_t);
	if (!get(image->memory, buckets + hash % head[0] * sizeof(uint32_t), &index, sizeof(index)) || index < head[1])
		return 0;
	for (int i = 0; i < MAX_CHAIN; i++, index++) {
		if (!get(image->memory, chains + (index - head[1]) * sizeof(uint32_t), &link, sizeof(link)))
			return 0;
		found = (link | 1) == (hash | 1) ? function_of(image, index) : 0;
		if (found || link & 1)
			return found;
	}
	return 0;
}

/* ---- all that is mapped ---- */

/* What has been found so far. */
struct search {
	int memory;
	int ret; /* -ENOENT: nothing */
	int64_t offset;
};

static void look_at(struct search *s, uint64_t base)
{
	struct image image = { .memory = s->memory };
	uint64_t function = read_image(&image, base) ? exported_function(&image) : 0;
	int64_t offset;
	int ret;

	if (!function || s->ret == -ENOTUNIQ)
		return;
	ret = place_of_function(s->memory, function, &offset);
	if (s->ret == -ENOENT || (ret && s->ret == 0)) {
		s->ret = ret;
		s->offset = offset;
	} else if (!ret && !s->ret && offset != s->offset) {
		s->ret = -ENOTUNIQ; /* an old glibc has it in libpthread as well, and there it is the same */
	}
}

/* A line of /proc/PID/maps: the beginning of a file? */
static void look_at_line(struct search *s, const char *line)
{
	uint64_t start, at, inode;

	if (sscanf(line, "%" SCNx64 "-%*x r%*3s %" SCNx64 " %*x:%*x %" SCNu64, &start, &at, &inode) == 3 && at == 0 &&
	    inode)
		look_at(s, start);
}

static int search_maps(struct search *s, int maps)
{
	static char buf[16384];
	size_t kept = 0;
	ssize_t len;

	while ((len = read(maps, buf + kept, sizeof(buf) - 1 - kept)) > 0) {
		char *line = buf, *end;

		buf[kept + len] = '\0';
		while ((end = strchr(line, '\n'))) {
			*end = '\0';
			look_at_line(s, line);
			line = end + 1;
		}
		kept = strlen(line);
		if (kept >= sizeof(buf) - 1)
			kept = 0; /* no path is that long */
		memmove(buf, line, kept);
	}
	return len < 0 ? -errno : s->ret;
}

static int open_proc(pid_t pid, const char *name)
{
	char path[48];
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/%s", pid, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

int errno_place(pid_t pid, uint64_t function, int64_t *offset)
{
	struct search s = { .memory = open_proc(pid, "mem"), .ret = -ENOENT };
	int maps, ret;

	if (s.memory < 0)
		return s.memory;
	if (function) {
		ret = place_of_function(s.memory, function, offset);
	} else {
		maps = open_proc(pid, "maps");
		ret = maps < 0 ? maps : search_maps(&s, maps);
		if (maps >= 0)
			close(maps);
		*offset = s.offset;
	}
	close(s.memory);
	return ret;
}
