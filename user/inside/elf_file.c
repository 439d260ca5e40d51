// SPDX-License-Identifier: GPL-2.0-only
/* Reading of ELF files: headers, the tables that they point to, and the hash tables of exported symbols. */
#include "user/inside/elf_file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "user/inside/elf_internal.h"

#define MAX_SEGMENTS  1024
#define MAX_SECTIONS  65536
#define MAX_DYNAMIC   4096 /* entries */
#define MAX_CHAIN     1024 /* symbols of one hash; more than a few are nobody's honest table */
#define MAX_LOOKED_UP 254  /* bytes of a name; longer ones are found by reading all symbols */
#define PIECE         65536

#ifdef __aarch64__
#define MACHINE EM_AARCH64
#else
#define MACHINE EM_X86_64
#endif

int elf_read(const struct elf_file *file, uint64_t offset, void *buf, size_t size)
{
	size_t done = 0;

	if (offset > file->size || size > file->size - offset)
		return -EBADMSG;
	while (done < size) {
		ssize_t len = pread(file->fd, (char *)buf + done, size - done, (off_t)(offset + done));

		if (len < 0 && errno == EINTR)
			continue;
		if (len <= 0)
			return len < 0 ? -errno : -EBADMSG;
		done += (size_t)len;
	}
	return 0;
}

/* ---- headers ---- */

static int not_elf(const struct elf_file *file, struct error *err, const char *why)
{
	return error_set(err, -ENOEXEC, EXIT_CANNOT, "'%s' %s", file->name, why);
}

static int read_header(struct elf_file *file, struct error *err)
{
	Elf64_Ehdr *h = &file->header;
	int code = elf_read(file, 0, h, sizeof(*h));

	if (code && code != -EBADMSG)
		return error_set(err, code, EXIT_FAILED, "cannot read '%s': %s", file->name, strerror(-code));
	if (code || memcmp(h->e_ident, ELFMAG, SELFMAG) != 0)
		return not_elf(file, err, "is not an ELF file");
	if (h->e_ident[EI_CLASS] != ELFCLASS64 || h->e_ident[EI_DATA] != ELFDATA2LSB)
		return not_elf(file, err, "is not a 64-bit ELF file");
	if (h->e_machine != MACHINE)
		return not_elf(file, err, "is for another kind of machine");
	if (h->e_type != ET_EXEC && h->e_type != ET_DYN)
		return not_elf(file, err, "is neither a program nor a shared library");
	return 0;
}

static int read_segments(struct elf_file *file)
{
	size_t count = file->header.e_phnum;

	if (!count || count > MAX_SEGMENTS || file->header.e_phentsize != sizeof(Elf64_Phdr))
		return -EBADMSG;
	file->segments = calloc(count, sizeof(*file->segments));
	if (!file->segments)
		return -ENOMEM;
	file->segment_count = count;
	return elf_read(file, file->header.e_phoff, file->segments, count * sizeof(*file->segments));
}

/* Where an address lies in the file; 0 when nowhere: the header is there. */
static uint64_t offset_of(const struct elf_file *file, uint64_t address)
{
	for (size_t i = 0; i < file->segment_count; i++) {
		const Elf64_Phdr *p = &file->segments[i];

		if (p->p_type == PT_LOAD && address >= p->p_vaddr && address - p->p_vaddr < p->p_filesz)
			return address - p->p_vaddr + p->p_offset;
	}
	return 0;
}

/* ---- sections: .symtab is found by them alone, and Go's */

static bool is_go_section(const char *name)
{
	return strcmp(name, ".go.buildinfo") == 0 || strcmp(name, ".gopclntab") == 0 ||
	       strcmp(name, ".note.go.buildid") == 0;
}

static void take_symbols(const Elf64_Shdr *sections, size_t count, const Elf64_Shdr *s, struct elf_symbols *symbols)
{
	const Elf64_Shdr *text = s->sh_link < count ? &sections[s->sh_link] : NULL;

	if (symbols->count || !text || text->sh_type != SHT_STRTAB)
		return;
	*symbols = (struct elf_symbols){
		.offset = s->sh_offset,
		.count = s->sh_size / sizeof(Elf64_Sym),
		.text = text->sh_offset,
		.text_size = text->sh_size,
	};
}

static void take_sections(struct elf_file *file, const Elf64_Shdr *sections, size_t count)
{
	size_t names = file->header.e_shstrndx;

	for (size_t i = 0; i < count; i++) {
		const Elf64_Shdr *s = &sections[i];
		char name[20] = "";

		if (names < count && s->sh_name < sections[names].sh_size &&
		    !elf_read(file, sections[names].sh_offset + s->sh_name, name, sizeof(name) - 1))
			file->is_go = file->is_go || is_go_section(name);
		if (s->sh_type == SHT_SYMTAB)
			take_symbols(sections, count, s, &file->all);
		if (s->sh_type == SHT_DYNSYM)
			take_symbols(sections, count, s, &file->exported);
	}
	for (size_t i = 0; i < count; i++) {
		if (sections[i].sh_type == SHT_GNU_versym)
			file->exported.versions = sections[i].sh_offset;
	}
}

/* A file without sections, or with senseless ones, is as good as one without .symtab. */
static int read_sections(struct elf_file *file)
{
	size_t count = file->header.e_shnum;
	Elf64_Shdr *sections;
	int code;

	if (!count || file->header.e_shentsize != sizeof(Elf64_Shdr))
		return 0;
	sections = calloc(count, sizeof(*sections));
	if (!sections)
		return -ENOMEM;
	code = elf_read(file, file->header.e_shoff, sections, count * sizeof(*sections));
	if (!code)
		take_sections(file, sections, count);
	free(sections);
	return code == -EBADMSG ? 0 : code;
}

/* ---- what the dynamic linker reads ---- */

struct dynamic {
	uint64_t symbols, text, text_size, versions;
};

static void take_dynamic(struct elf_file *file, const Elf64_Dyn *d, struct dynamic *dynamic)
{
	switch (d->d_tag) {
	case DT_SYMTAB:
		dynamic->symbols = offset_of(file, d->d_un.d_ptr);
		break;
	case DT_STRTAB:
		dynamic->text = offset_of(file, d->d_un.d_ptr);
		break;
	case DT_STRSZ:
		dynamic->text_size = d->d_un.d_val;
		break;
	case DT_VERSYM:
		dynamic->versions = offset_of(file, d->d_un.d_ptr);
		break;
	case DT_GNU_HASH:
		file->gnu_hash = offset_of(file, d->d_un.d_ptr);
		break;
	case DT_HASH:
		file->hash = offset_of(file, d->d_un.d_ptr);
		break;
	case DT_SONAME:
		file->soname = d->d_un.d_val;
		break;
	default:
		break;
	}
}

/*
 * How many exported symbols there are is told by the old hash table, or else not at all; all linkers put their names
 * right behind them.
 */
static uint64_t count_exported(const struct elf_file *file, const struct dynamic *dynamic)
{
	uint32_t sizes[2];

	if (file->hash && !elf_read(file, file->hash, sizes, sizeof(sizes)))
		return sizes[1];
	return dynamic->text > dynamic->symbols ? (dynamic->text - dynamic->symbols) / sizeof(Elf64_Sym) : 0;
}

static int read_dynamic(struct elf_file *file, const Elf64_Phdr *segment)
{
	size_t count = segment->p_filesz / sizeof(Elf64_Dyn);
	struct dynamic dynamic = { 0 };
	uint64_t known = file->exported.count; /* by its section */

	if (count > MAX_DYNAMIC)
		count = MAX_DYNAMIC;
	for (size_t i = 0; i < count; i++) {
		Elf64_Dyn d;
		int code = elf_read(file, segment->p_offset + i * sizeof(d), &d, sizeof(d));

		if (code)
			return code == -EBADMSG ? 0 : code;
		if (d.d_tag == DT_NULL)
			break;
		take_dynamic(file, &d, &dynamic);
	}
	if (!dynamic.symbols || !dynamic.text)
		return 0;
	file->exported = (struct elf_symbols){
		.offset = dynamic.symbols,
		.count = known ? known : count_exported(file, &dynamic),
		.text = dynamic.text,
		.text_size = dynamic.text_size,
		.versions = dynamic.versions,
	};
	return 0;
}

static int read_all(struct elf_file *file, struct error *err)
{
	int code = read_segments(file);

	if (!code)
		code = read_sections(file);
	for (size_t i = 0; i < file->segment_count && !code; i++) {
		if (file->segments[i].p_type == PT_DYNAMIC)
			code = read_dynamic(file, &file->segments[i]);
	}
	if (code == -EBADMSG)
		return error_set(err, code, EXIT_CANNOT, "'%s' is a broken ELF file", file->name);
	if (code)
		return error_set(err, code, EXIT_FAILED, "cannot read '%s': %s", file->name, strerror(-code));
	return 0;
}

int elf_file_open(int fd, const char *name, struct elf_file **result, struct error *err)
{
	struct elf_file *file = calloc(1, sizeof(*file));
	struct stat st;
	int code = 0;

	*result = NULL;
	if (!file)
		return error_set(err, -ENOMEM, EXIT_FAILED, "out of memory");
	file->fd = fd;
	snprintf(file->name, sizeof(file->name), "%s", name);
	if (fstat(fd, &st))
		code = error_set(err, -errno, EXIT_FAILED, "cannot read '%s': %m", name);
	else if (!S_ISREG(st.st_mode))
		code = not_elf(file, err, "is not a regular file");
	file->size = code ? 0 : (uint64_t)st.st_size;
	if (!code)
		code = read_header(file, err);
	if (!code)
		code = read_all(file, err);
	if (code) {
		elf_file_close(file);
		return code;
	}
	*result = file;
	return 0;
}

void elf_file_close(struct elf_file *file)
{
	if (!file)
		return;
	free(file->segments);
	free(file);
}

bool elf_file_is_go(const struct elf_file *file)
{
	return file->is_go;
}

/* ---- single names ---- */

/* Reads a name, cut to what fits; "" when it cannot be read. */
static void read_name(const struct elf_file *file, uint64_t name, char *buf, size_t size)
{
	uint64_t room = name < file->exported.text_size ? file->exported.text_size - name : 0;
	size_t len = room < size - 1 ? room : size - 1;

	memset(buf, 0, size);
	if (elf_read(file, file->exported.text + name, buf, len))
		buf[0] = '\0';
}

const char *elf_file_soname(struct elf_file *file)
{
	if (file->soname && !file->soname_text[0])
		read_name(file, file->soname, file->soname_text, sizeof(file->soname_text));
	return file->soname_text;
}

bool elf_file_mentions(struct elf_file *file, const char *const *words, uint64_t max_bytes)
{
	const struct elf_symbols *table = &file->all;
	size_t kept = 0; /* of the piece before, where a word may have begun */
	bool found = false;
	char *piece;

	if (!table->count || table->text_size > max_bytes)
		return false;
	piece = malloc(2 * PIECE);
	for (uint64_t at = 0; piece && at < table->text_size && !found; at += PIECE) {
		size_t len = table->text_size - at < PIECE ? table->text_size - at : PIECE;

		if (elf_read(file, table->text + at, piece + kept, len))
			break;
		len += kept;
		for (size_t i = 0; words[i] && !found; i++)
			found = memmem(piece, len, words[i], strlen(words[i]));
		kept = len < 64 ? len : 64;
		memmove(piece, piece + len - kept, kept);
	}
	free(piece);
	return found;
}

/* ---- hash tables of exported symbols (glibc's elf/dl-lookup.c has the description) ---- */

static uint32_t gnu_hash_of(const char *name)
{
	uint32_t hash = 5381;

	for (; *name; name++)
		hash = hash * 33 + (unsigned char)*name;
	return hash;
}

static uint32_t hash_of(const char *name)
{
	uint32_t hash = 0, high;

	for (; *name; name++) {
		hash = (hash << 4) + (unsigned char)*name;
		high = hash & 0xf0000000;
		hash = (hash ^ high >> 24) & ~high;
	}
	return hash;
}

/* Is the symbol with this number the one with this name, and defined? */
static bool is_symbol(const struct elf_file *file, uint32_t index, const char *name, struct elf_symbol *symbol)
{
	const struct elf_symbols *table = &file->exported;
	char text[MAX_LOOKED_UP + 2];
	uint16_t version = 0;

	if (index >= table->count ||
	    elf_read(file, table->offset + index * sizeof(Elf64_Sym), &symbol->sym, sizeof(symbol->sym)))
		return false;
	if (symbol->sym.st_shndx == SHN_UNDEF)
		return false;
	read_name(file, symbol->sym.st_name, text, sizeof(text));
	if (strcmp(text, name) != 0)
		return false;
	if (table->versions)
		elf_read(file, table->versions + 2ULL * index, &version, sizeof(version));
	symbol->name = name;
	symbol->name_len = strlen(name);
	symbol->is_local = false;
	symbol->is_default = !(version & 0x8000);
	return true;
}

static int look_up_gnu(const struct elf_file *file, const char *name, elf_visit *visit, void *arg)
{
	struct {
		uint32_t buckets, first, words, shift;
	} head;
	uint64_t word, buckets, chains, at = file->gnu_hash;
	uint32_t hash = gnu_hash_of(name), index, value;
	struct elf_symbol symbol;
	int code = elf_read(file, at, &head, sizeof(head));

	if (code || !head.buckets || !head.words)
		return code;
	at += sizeof(head);
	buckets = at + 8ULL * head.words;
	chains = buckets + 4ULL * head.buckets;
	code = elf_read(file, at + 8ULL * (hash / 64 % head.words), &word, sizeof(word));
	if (code || !(word >> hash % 64 & 1) || !(word >> (hash >> (head.shift & 31)) % 64 & 1))
		return code;
	code = elf_read(file, buckets + 4ULL * (hash % head.buckets), &index, sizeof(index));
	if (code || index < head.first)
		return code;
	for (int i = 0; i < MAX_CHAIN; i++, index++) {
		code = elf_read(file, chains + 4ULL * (index - head.first), &value, sizeof(value));
		if (!code && (value | 1) == (hash | 1) && is_symbol(file, index, name, &symbol))
			code = visit(&symbol, arg);
		if (code || value & 1)
			break;
	}
	return code;
}

static int look_up_old(const struct elf_file *file, const char *name, elf_visit *visit, void *arg)
{
	uint32_t sizes[2], index;
	struct elf_symbol symbol;
	uint64_t buckets = file->hash + sizeof(sizes), chains;
	int code = elf_read(file, file->hash, sizes, sizeof(sizes));

	if (code || !sizes[0])
		return code;
	chains = buckets + 4ULL * sizes[0];
	code = elf_read(file, buckets + 4ULL * (hash_of(name) % sizes[0]), &index, sizeof(index));
	for (int i = 0; i < MAX_CHAIN && !code && index; i++) {
		if (is_symbol(file, index, name, &symbol))
			code = visit(&symbol, arg);
		if (!code)
			code = elf_read(file, chains + 4ULL * index, &index, sizeof(index));
	}
	return code;
}

int elf_look_up(const struct elf_file *file, const char *name, elf_visit *visit, void *arg)
{
	if (strlen(name) > MAX_LOOKED_UP)
		return -ENOENT;
	if (file->gnu_hash)
		return look_up_gnu(file, name, visit, arg);
	if (file->hash)
		return look_up_old(file, name, visit, arg);
	return -ENOENT;
}

static int note(const struct elf_symbol *symbol, void *arg)
{
	bool *found = arg;

	(void)symbol;
	*found = true;
	return 0;
}

bool elf_file_exports(struct elf_file *file, const char *name)
{
	bool found = false;

	return elf_look_up(file, name, note, &found) == 0 && found;
}
