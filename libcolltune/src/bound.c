/* Finds the MPI library of the process, in the lists of symbols of all that is loaded.
 *
 * The dynamic linker's own look-up is of no use here: of a library that was loaded for itself alone
 * it tells only those who belong to it, and we do not know who calls (ct_next). */
#define _GNU_SOURCE /* dl_iterate_phdr, RTLD_NEXT */
#include "core.h"

#include <dlfcn.h>

#ifndef CT_LATE
ct_bound_t ct_bound = CT_ALONE;
int ct_is_ours = 1;
void ct_bind(void) {}
void ct_unbind(void) {}
void *ct_defined(const char *name) { return dlsym(RTLD_DEFAULT, name); }
void *ct_next(const char *name, const void *caller) { return (void)caller, dlsym(RTLD_NEXT, name); }
#else
#include <elf.h>
#include <link.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>

/* ---- one object: a program, or a library ---- */

typedef struct {
    ElfW(Addr) base;
    const ElfW(Dyn) *dynamic;
    const ElfW(Sym) *symbols;
    const char *strings;
    const uint32_t *gnu, *sysv; /* hash tables; NULL: it has none of this kind */
} object_t;

/* Whether it is this library, which link.h's _DYNAMIC belongs to. */
static int is_ours(const object_t *o) { return o->dynamic == _DYNAMIC; }

/* 0 if it has no symbols. */
static int open_object(const struct dl_phdr_info *info, object_t *o) {
    *o = (object_t){.base = info->dlpi_addr};
    for (int i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_DYNAMIC)
            o->dynamic = (const void *)(o->base + info->dlpi_phdr[i].p_vaddr);
    for (const ElfW(Dyn) *d = o->dynamic; d && d->d_tag != DT_NULL; d++) {
        /* some dynamic linkers add the base, and others leave it to us */
        const void *at = (const void *)(d->d_un.d_ptr + (d->d_un.d_ptr < o->base ? o->base : 0));
        if (d->d_tag == DT_SYMTAB) o->symbols = at;
        else if (d->d_tag == DT_STRTAB) o->strings = at;
        else if (d->d_tag == DT_GNU_HASH) o->gnu = at;
        else if (d->d_tag == DT_HASH) o->sysv = at;
    }
    return o->symbols && o->strings && (o->gnu || o->sysv);
}

static int is_definition(const object_t *o, uint32_t i, const char *name) {
    const ElfW(Sym) *s = &o->symbols[i];
    int type = ELF64_ST_TYPE(s->st_info);
    return s->st_shndx != SHN_UNDEF && s->st_value && !strcmp(o->strings + s->st_name, name) &&
           (type == STT_FUNC || type == STT_OBJECT || type == STT_COMMON || type == STT_NOTYPE) &&
           ELF64_ST_BIND(s->st_info) != STB_LOCAL;
}

static uint32_t find_gnu(const object_t *o, const char *name) {
    uint32_t hash = 5381, n = o->gnu[0], first = o->gnu[1], words = o->gnu[2], shift = o->gnu[3];
    const ElfW(Addr) *bloom = (const void *)(o->gnu + 4);
    const uint32_t *buckets = (const void *)(bloom + words), *chain = buckets + n;
    enum { BITS = 8 * sizeof *bloom };
    for (const char *c = name; *c; c++) hash = hash * 33 + (unsigned char)*c;
    if (!n || !words) return 0;
    ElfW(Addr) word = bloom[hash / BITS % words];
    if (!(word >> hash % BITS & word >> (hash >> shift) % BITS & 1)) return 0;
    for (uint32_t i = buckets[hash % n]; i >= first && i; i++) {
        if ((chain[i - first] | 1) == (hash | 1) && is_definition(o, i, name)) return i;
        if (chain[i - first] & 1) break;
    }
    return 0;
}

static uint32_t find_sysv(const object_t *o, const char *name) {
    uint32_t hash = 0, n = o->sysv[0];
    const uint32_t *buckets = o->sysv + 2, *chain = buckets + n;
    for (const char *c = name; *c; c++) {
        hash = (hash << 4) + (unsigned char)*c;
        hash = (hash ^ (hash >> 24 & 0xf0)) & 0x0fffffff;
    }
    for (uint32_t i = n ? buckets[hash % n] : 0; i; i = chain[i])
        if (is_definition(o, i, name)) return i;
    return 0;
}

/* The address of what the object defines; NULL: it does not. */
static void *find(const object_t *o, const char *name) {
    uint32_t i = o->gnu ? find_gnu(o, name) : find_sysv(o, name);
    return i ? (void *)(o->base + o->symbols[i].st_value) : NULL;
}

/* ---- all objects, in the order in which they were loaded ---- */

enum { MOST = 8 };
typedef struct {
    const char *name;
    int from_ours, passed_ours; /* whether only those that come after us count */
    int n;
    void *addresses[MOST];
    object_t objects[MOST];
} search_t;

static int look(struct dl_phdr_info *info, size_t size, void *data) {
    search_t *s = data;
    object_t o;
    (void)size;
    if (!open_object(info, &o)) return 0;
    s->passed_ours |= is_ours(&o);
    void *found = is_ours(&o) || (s->from_ours && !s->passed_ours) ? NULL : find(&o, s->name);
    if (!found) return 0;
    s->addresses[s->n] = found;
    s->objects[s->n++] = o;
    return s->n == MOST;
}

static search_t search(const char *name, int from_ours) {
    search_t s = {.name = name, .from_ours = from_ours};
    dl_iterate_phdr(look, &s);
    return s;
}

void *ct_defined(const char *name) { return search(name, 0).addresses[0]; }

/* ---- the one that is used without us ---- */

int ct_nothing(void) { return MPI_ERR_OTHER; }

/* What the object that `caller` lies in, and those that it needs, have. */
static void *by_caller(const char *name, const void *caller) {
    Dl_info at;
    void *library = dladdr(caller, &at) ? dlopen(at.dli_fname, RTLD_LAZY | RTLD_NOLOAD) : NULL;
    void *found = library ? dlsym(library, name) : NULL;
    if (library) dlclose(library);
    return found;
}

typedef int flag_t(int *);
/* Of several MPI libraries, the first that is to begin with `begins`, or else that runs. */
static void *by_state(const search_t *s, int begins) {
    for (int i = 0; i < s->n; i++) {
        flag_t *initialized = (flag_t *)find(&s->objects[i], "PMPI_Initialized");
        flag_t *finalized = (flag_t *)find(&s->objects[i], "PMPI_Finalized");
        int begun = 0, ended = 0;
        if (!initialized || !finalized) continue;
        initialized(&begun);
        finalized(&ended);
        if (begins ? !begun : begun && !ended) return s->addresses[i];
    }
    return s->addresses[0];
}

void *ct_next(const char *name, const void *caller) {
    search_t s = search(name, 1);
    if (!s.n) return (void *)ct_nothing;
    if (s.n == 1) return s.addresses[0];
    /* what all share goes before what belongs to a part of the program */
    void *found = dlsym(RTLD_NEXT, name);
    if (!found) found = by_caller(name, caller);
    for (int i = 0; i < s.n; i++)
        if (found == s.addresses[i]) return found;
    return by_state(&s, strstr(name, "nit") != NULL);
}

/* ---- the table ---- */

#define NAME_OF_FUNCTION(name) "PMPI_" #name,
#define NAME_OF_HANDLE(name) #name,
static const char *const names[] = {CT_MPI_FUNCTIONS(NAME_OF_FUNCTION)
                                    CT_MPI_HANDLES(NAME_OF_HANDLE)};
enum { NAMES = sizeof names / sizeof *names };

#define NO_FUNCTION(name) .name = (__typeof__(ct_mpi.name))(void (*)(void))ct_nothing,
#define EMPTY {CT_MPI_FUNCTIONS(NO_FUNCTION)}
static const ct_mpi_t empty = EMPTY;
ct_mpi_t ct_mpi = EMPTY;
ct_bound_t ct_bound;
int ct_is_ours;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static ElfW(Addr) bound_base; /* of the library that is bound */

typedef struct {
    ct_mpi_t table;
    char found[NAMES];
} filling_t;

static int fill(struct dl_phdr_info *info, size_t size, void *data) {
    filling_t *f = data;
    object_t o;
    (void)size;
    if (!open_object(info, &o) || is_ours(&o)) return 0;
    for (int i = 0; i < NAMES; i++) {
        void *address = f->found[i] ? NULL : find(&o, names[i]);
        if (!address) continue;
        memcpy((char *)&f->table + (size_t)i * sizeof address, &address, sizeof address);
        f->found[i] = 1;
    }
    return 0;
}

/* Whether it is ours. */
static int bind_table(ElfW(Addr) base) {
    filling_t f = {.table = empty};
    dl_iterate_phdr(fill, &f);
    ct_mpi = f.table;
    bound_base = base;
    return memchr(f.found, 0, NAMES) == NULL && ct_is_made_for_it();
}

void ct_bind(void) {
    pthread_mutex_lock(&lock);
    search_t s = search("PMPI_Init", 0);
    static int fits;
    if (s.n == 1 && bound_base != s.objects[0].base) fits = bind_table(s.objects[0].base);
    ct_bound = s.n == 0 ? CT_UNBOUND : s.n == 1 ? CT_ALONE : CT_SEVERAL;
    ct_is_ours = ct_bound == CT_ALONE && fits;
    pthread_mutex_unlock(&lock);
    ct_engage_bound();
}

void ct_unbind(void) {
    pthread_mutex_lock(&lock);
    ct_bound = CT_UNBOUND;
    ct_is_ours = 0;
    ct_mpi = empty;
    bound_base = 0;
    pthread_mutex_unlock(&lock);
    ct_engage_bound();
}
#endif
