/* Runs a fuzz target on its corpus as a plain test: on every file of the given directories and on
 * every given file. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The input is in a heap block of exactly its size, so that a sanitizer detects a read of one byte
 * after it. */
static int
replay_file(const char *path)
{
    FILE *f = fopen(path, "rb");
    struct stat st;
    uint8_t *data;
    size_t n;

    if (f == NULL || fstat(fileno(f), &st) != 0) {
        perror(path);
        return 0;
    }
    data = malloc(st.st_size > 0 ? (size_t) st.st_size : 1);
    n = data == NULL ? 0 : fread(data, 1, (size_t) st.st_size, f);
    fclose(f);
    LLVMFuzzerTestOneInput(data, n);
    free(data);
    return 1;
}

static int
replay(const char *path)
{
    DIR *dir = opendir(path);
    struct dirent *entry;
    int n = 0;

    if (dir == NULL)
        return replay_file(path);
    while ((entry = readdir(dir)) != NULL) {
        char file[4096];

        if (entry->d_name[0] == '.')
            continue;
        snprintf(file, sizeof(file), "%s/%s", path, entry->d_name);
        n += replay(file);
    }
    closedir(dir);
    return n;
}

int
main(int argc, char **argv)
{
    int n = 0;

    for (int i = 1; i < argc; i++)
        n += replay(argv[i]);
    printf("%d inputs replayed\n", n);
    return n == 0; /* an empty corpus means a broken test */
}
