/* Preloaded into every process of a run: counts the operations that change files below a folder, and kills at one.

   DEADLY_ROOT    the folder
   DEADLY_COUNT   a file with the number of operations so far, of all processes
   DEADLY_LOG     a file with a line for each: its number, the process, the operation, the path
   DEADLY_AT      the number of the operation before which to kill; 0: none
   DEADLY_WHOM    "all": every process of the log at once; otherwise the one whose operation it is

   It needs no header of the system and no C library to link with, so that any C compiler will do. */

typedef long ssize_t;
typedef unsigned long size_t;

extern void *dlsym(void *handle, const char *name);
extern char *getenv(const char *name);
extern long atol(const char *text);
extern int getpid(void), kill(int process, int number), flock(int file, int how), close(int file), pause(void);
extern int snprintf(char *text, size_t size, const char *format, ...);
extern ssize_t read(int file, void *data, size_t size), readlink(const char *path, char *data, size_t size);
extern long lseek(int file, long offset, int from);
extern size_t strlen(const char *text);
extern int strncmp(const char *one, const char *other, size_t size);

#define NEXT ((void *)-1L)
#define CREATES (0100 | 01000) /* O_CREAT, O_TRUNC */
#define REAL(type, name) static type real; if (!real) real = (type)dlsym(NEXT, name)

typedef int (*Open)(const char *, int, unsigned);
typedef ssize_t (*Write)(int, const void *, size_t);

static char known[1 << 18];

static void kill_all(const char *log) {
    Open open_ = (Open)dlsym(NEXT, "open");
    int file = open_(log, 0, 0);
    ssize_t size = read(file, known, sizeof known - 1);
    char *place = known;
    known[size > 0 ? size : 0] = 0;
    while (*place) {
        while (*place && *place != ' ') place++; /* the number */
        if (*place && atol(place) != getpid()) kill(atol(place), 9);
        while (*place && *place != '\n') place++;
        if (*place) place++;
    }
}

static void note(const char *operation, const char *path) {
    char text[4400];
    Open open_ = (Open)dlsym(NEXT, "open");
    Write write_ = (Write)dlsym(NEXT, "write");
    const char *count = getenv("DEADLY_COUNT"), *log = getenv("DEADLY_LOG"), *at = getenv("DEADLY_AT");
    const char *whom = getenv("DEADLY_WHOM");
    int file = open_(count, 2 | 0100, 0600), lines;
    long number;
    ssize_t size;
    if (file < 0) return;
    flock(file, 2); /* LOCK_EX */
    size = read(file, text, 30);
    text[size > 0 ? size : 0] = 0;
    number = atol(text) + 1;
    lseek(file, 0, 0);
    size = snprintf(text, 30, "%ld\n", number);
    write_(file, text, size);
    lines = open_(log, 1 | 0100 | 02000, 0600); /* O_APPEND */
    size = snprintf(text, sizeof text, "%ld %d %s %s\n", number, getpid(), operation, path);
    write_(lines, text, size);
    close(lines);
    if (at && number == atol(at)) {
        if (whom && !strncmp(whom, "all", 4)) kill_all(log);
        kill(getpid(), 9);
        for (;;) pause();
    }
    close(file); /* which unlocks it */
}

static void met(const char *operation, const char *path) {
    const char *root = getenv("DEADLY_ROOT");
    if (root && path && !strncmp(path, root, strlen(root))) note(operation, path);
}

static void met_file(const char *operation, int file) {
    char name[40], path[4096];
    ssize_t size;
    if (file < 3) return;
    snprintf(name, sizeof name, "/proc/self/fd/%d", file);
    size = readlink(name, path, sizeof path - 1);
    if (size <= 0) return;
    path[size] = 0;
    met(operation, path);
}

int open(const char *path, int flags, unsigned mode) {
    REAL(Open, "open");
    if (flags & CREATES) met("create", path);
    return real(path, flags, mode);
}
int open64(const char *path, int flags, unsigned mode) {
    REAL(Open, "open64");
    if (flags & CREATES) met("create", path);
    return real(path, flags, mode);
}
typedef int (*OpenAt)(int, const char *, int, unsigned);
int openat(int folder, const char *path, int flags, unsigned mode) {
    REAL(OpenAt, "openat");
    if (flags & CREATES) met("create", path);
    return real(folder, path, flags, mode);
}
int openat64(int folder, const char *path, int flags, unsigned mode) {
    REAL(OpenAt, "openat64");
    if (flags & CREATES) met("create", path);
    return real(folder, path, flags, mode);
}
ssize_t write(int file, const void *data, size_t size) {
    REAL(Write, "write");
    met_file("write", file);
    return real(file, data, size);
}
typedef ssize_t (*WriteAt)(int, const void *, size_t, long);
ssize_t pwrite64(int file, const void *data, size_t size, long offset) {
    REAL(WriteAt, "pwrite64");
    met_file("write", file);
    return real(file, data, size, offset);
}
typedef int (*OfFile)(int);
int fsync(int file) {
    REAL(OfFile, "fsync");
    met_file("sync", file);
    return real(file);
}
int fdatasync(int file) {
    REAL(OfFile, "fdatasync");
    met_file("sync", file);
    return real(file);
}
typedef int (*OfTwo)(const char *, const char *);
int rename(const char *from, const char *to) {
    REAL(OfTwo, "rename");
    met("rename", to);
    return real(from, to);
}
typedef int (*OfTwoAt)(int, const char *, int, const char *);
int renameat(int one, const char *from, int other, const char *to) {
    REAL(OfTwoAt, "renameat");
    met("rename", to);
    return real(one, from, other, to);
}
typedef int (*OfPath)(const char *);
int unlink(const char *path) {
    REAL(OfPath, "unlink");
    met("delete", path);
    return real(path);
}
int remove(const char *path) {
    REAL(OfPath, "remove");
    met("delete", path);
    return real(path);
}
int rmdir(const char *path) {
    REAL(OfPath, "rmdir");
    met("delete folder", path);
    return real(path);
}
typedef int (*OfPathAt)(int, const char *, int);
int unlinkat(int folder, const char *path, int flags) {
    REAL(OfPathAt, "unlinkat");
    met("delete", path);
    return real(folder, path, flags);
}
typedef int (*OfMode)(const char *, unsigned);
int mkdir(const char *path, unsigned mode) {
    REAL(OfMode, "mkdir");
    met("make folder", path);
    return real(path, mode);
}
