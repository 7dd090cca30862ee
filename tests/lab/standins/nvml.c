/*
 * Stand-in for NVIDIA's libnvidia-ml.so.1, for the lab only: no GPU is here. It answers from the
 * samples that tests/lab/gpus.py writes, read anew at every call, so that a test changes them
 * while a program has the library open.
 *
 * Built by tests/lab/driver.py with -DDRIVER=NNN, the major version of the driver that it plays:
 * older ones lack the symbols that came later. Layouts and numbers are those of NVML's ABI; what
 * of them was held against a real driver is written in tests/captures/nvml/README.md.
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#ifndef DRIVER
#define DRIVER 580
#endif

#define SAMPLES "/run/orch-lab/gpu/samples"
#define MOST 64
#define LINE 2048
#define MIB (1024ULL * 1024ULL)
#define NOT_AVAILABLE 0xFFFFFFFFU
#define EXPORT __attribute__((visibility("default")))

enum {
    SUCCESS = 0, UNINITIALIZED = 1, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6,
    INSUFFICIENT_SIZE = 7, DRIVER_NOT_LOADED = 9, TIMED_OUT = 10, GPU_IS_LOST = 15,
    ARGUMENT_VERSION_MISMATCH = 25, UNKNOWN = 999
};

/* A handle: a whole GPU (mig -1) or a MIG device of it. */
typedef struct { unsigned int gpu; int mig; } handle_t;
typedef handle_t *device_t;

static handle_t gpus[MOST];
static handle_t parts[MOST][MOST];
static int initialised;

/* ---- the samples -------------------------------------------------------------------------- */

static FILE *open_samples(void)
{
    const char *path = getenv("ORCH_LAB_GPU_SAMPLES");
    return fopen(path ? path : SAMPLES, "r");
}

/* The next line of a kind, without its newline; 0 at the end. */
static int next_line(FILE *file, const char *kind, char *line)
{
    size_t length = strlen(kind);
    while (fgets(line, LINE, file)) {
        line[strcspn(line, "\n")] = '\0';
        if (strncmp(line, kind, length) == 0 && (line[length] == '\t' || line[length] == '\0'))
            return 1;
    }
    return 0;
}

/* The field KEY of a line; 0 where it is not there or not known, as `[N/A]` says. */
static int field(const char *line, const char *key, char *value, size_t size)
{
    size_t length = strlen(key);
    const char *part = line;
    while ((part = strchr(part, '\t'))) {
        part++;
        if (strncmp(part, key, length) == 0 && part[length] == '=') {
            size_t end = strcspn(part + length + 1, "\t");
            snprintf(value, size, "%.*s", (int)end, part + length + 1);
            return value[0] != '[' && value[0] != '\0' && strcmp(value, "ERR!") != 0;
        }
    }
    return 0;
}

static long long number(const char *line, const char *key, long long otherwise)
{
    char value[64];
    return field(line, key, value, sizeof value) ? strtoll(value, NULL, 0) : otherwise;
}

static int gpu_line(unsigned int index, char *line)
{
    FILE *file = open_samples();
    int found = 0;
    while (file && !found && next_line(file, "gpu", line))
        found = number(line, "index", -1) == (long long)index;
    if (file)
        fclose(file);
    return found;
}

static int part_line(const handle_t *part, char *line)
{
    FILE *file = open_samples();
    int found = 0;
    while (file && !found && next_line(file, "mig", line))
        found = number(line, "gpu", -1) == (long long)part->gpu
             && number(line, "index", -1) == part->mig;
    if (file)
        fclose(file);
    return found;
}

/* What the library as a whole says now; a driver that hangs is waited for. */
static int driver_state(unsigned int *count)
{
    char line[LINE];
    unsigned int seen;
    int failing;
    for (;;) {
        int hangs = 0;
        FILE *file = open_samples();
        seen = 0, failing = SUCCESS;
        while (file && fgets(line, LINE, file)) {
            line[strcspn(line, "\n")] = '\0';
            seen += strncmp(line, "gpu\t", 4) == 0;
            if (strncmp(line, "fail\t", 5) == 0)
                failing = (int)number(line, "nvml", DRIVER_NOT_LOADED);
            hangs |= strcmp(line, "hang") == 0;
        }
        if (file)
            fclose(file);
        if (!hangs)
            break;
        usleep(20000);
    }
    *count = seen;
    if (failing != SUCCESS)
        return failing;
    return seen ? SUCCESS : DRIVER_NOT_LOADED;
}

/* The line behind a handle, of the GPU or of its MIG device; otherwise why there is none. */
static int ask(device_t device, char *line)
{
    unsigned int count;
    int state;
    if (!initialised)
        return UNINITIALIZED;
    state = driver_state(&count);
    if (state != SUCCESS)
        return state;
    if (!device || !gpu_line(device->gpu, line))
        return INVALID_ARGUMENT;
    if (number(line, "lost", 0))
        return GPU_IS_LOST;
    if (device->mig >= 0 && !part_line(device, line))
        return NOT_FOUND;
    return SUCCESS;
}

static int ask_number(device_t device, const char *key, double factor, unsigned int *answer)
{
    char line[LINE], value[64];
    int state = ask(device, line);
    if (state != SUCCESS)
        return state;
    if (device->mig >= 0 || !field(line, key, value, sizeof value))
        return NOT_SUPPORTED;
    *answer = (unsigned int)(strtod(value, NULL) * factor + 0.5);
    return SUCCESS;
}

static int ask_text(device_t device, const char *key, char *text, unsigned int size)
{
    char line[LINE], value[256];
    int state = ask(device, line);
    if (state != SUCCESS)
        return state;
    if (!field(line, key, value, sizeof value))
        return NOT_SUPPORTED;
    if (strlen(value) >= size)
        return INSUFFICIENT_SIZE;
    strcpy(text, value);
    return SUCCESS;
}

/* ---- the library --------------------------------------------------------------------------- */

EXPORT int nvmlInitWithFlags(unsigned int flags)
{
    unsigned int count, gpu, part;
    int state = driver_state(&count);
    (void)flags;
    if (state != SUCCESS)
        return state;
    for (gpu = 0; gpu < MOST; gpu++) {
        gpus[gpu] = (handle_t){gpu, -1};
        for (part = 0; part < MOST; part++)
            parts[gpu][part] = (handle_t){gpu, (int)part};
    }
    initialised++;
    return SUCCESS;
}

EXPORT int nvmlInit_v2(void) { return nvmlInitWithFlags(0); }

EXPORT int nvmlShutdown(void)
{
    if (!initialised)
        return UNINITIALIZED;
    initialised--;
    return SUCCESS;
}

EXPORT const char *nvmlErrorString(int code)
{
    return code == SUCCESS ? "Success" : "stand-in: see the number";
}

EXPORT int nvmlSystemGetDriverVersion(char *version, unsigned int size)
{
    return initialised ? ask_text(&gpus[0], "driver_version", version, size) : UNINITIALIZED;
}

EXPORT int nvmlDeviceGetCount_v2(unsigned int *count)
{
    return initialised ? driver_state(count) : UNINITIALIZED;
}

EXPORT int nvmlDeviceGetHandleByIndex_v2(unsigned int index, device_t *device)
{
    char line[LINE];
    int state = index < MOST ? ask(&gpus[index], line) : INVALID_ARGUMENT;
    if (state == SUCCESS)
        *device = &gpus[index];
    return state;
}

EXPORT int nvmlDeviceGetUUID(device_t device, char *uuid, unsigned int size)
{
    return ask_text(device, "uuid", uuid, size);
}

EXPORT int nvmlDeviceGetName(device_t device, char *name, unsigned int size)
{
    return ask_text(device, "name", name, size);
}

EXPORT int nvmlDeviceGetCudaComputeCapability(device_t device, int *major, int *minor)
{
    char text[32];
    int state = ask_text(device, "compute_cap", text, sizeof text);
    if (state == SUCCESS && sscanf(text, "%d.%d", major, minor) != 2)
        return UNKNOWN;
    return state;
}

typedef struct {
    char legacy[16];
    unsigned int domain, bus, device, id, subsystem;
    char bus_id[32];
} pci_t;

EXPORT int nvmlDeviceGetPciInfo_v3(device_t device, pci_t *pci)
{
    char text[32];
    int state = ask_text(device, "pci.bus_id", text, sizeof text);
    if (state != SUCCESS)
        return state;
    memset(pci, 0, sizeof *pci);
    snprintf(pci->bus_id, sizeof pci->bus_id, "%s", text);
    snprintf(pci->legacy, sizeof pci->legacy, "%.15s", text + 4);
    sscanf(text, "%x:%x:%x", &pci->domain, &pci->bus, &pci->device);
    return SUCCESS;
}

/* ---- measurements -------------------------------------------------------------------------- */

typedef struct { unsigned long long total, free, used; } memory_t;
typedef struct {
    unsigned int version;
    unsigned long long total, reserved, free, used;
} memory_v2_t;

static int memory_of(device_t device, memory_v2_t *memory)
{
    char line[LINE];
    int state = ask(device, line);
    long long used = state == SUCCESS ? number(line, "memory.used", -1) : 0;
    if (state != SUCCESS || used < 0)
        return state != SUCCESS ? state : NOT_SUPPORTED;
    memory->total = (unsigned long long)number(line, "memory.total", 0) * MIB;
    memory->reserved = (unsigned long long)number(line, "memory.reserved", 0) * MIB;
    memory->used = (unsigned long long)used * MIB;
    memory->free = memory->total - memory->reserved - memory->used;
    return SUCCESS;
}

/* The first version counts the driver's own reserve as used. */
EXPORT int nvmlDeviceGetMemoryInfo(device_t device, memory_t *memory)
{
    memory_v2_t known;
    int state = memory_of(device, &known);
    if (state == SUCCESS)
        *memory = (memory_t){known.total, known.free, known.used + known.reserved};
    return state;
}

#if DRIVER >= 510
EXPORT int nvmlDeviceGetMemoryInfo_v2(device_t device, memory_v2_t *memory)
{
    if (memory->version != (sizeof *memory | 2u << 24))
        return ARGUMENT_VERSION_MISMATCH;
    return memory_of(device, memory);
}
#endif

typedef struct { unsigned int gpu, memory; } rates_t;

EXPORT int nvmlDeviceGetUtilizationRates(device_t device, rates_t *rates)
{
    int state = ask_number(device, "utilization.gpu", 1, &rates->gpu);
    return state != SUCCESS ? state : ask_number(device, "utilization.memory", 1, &rates->memory);
}

EXPORT int nvmlDeviceGetPowerUsage(device_t device, unsigned int *milliwatts)
{
    return ask_number(device, "power.draw", 1000, milliwatts);
}

EXPORT int nvmlDeviceGetEnforcedPowerLimit(device_t device, unsigned int *milliwatts)
{
    return ask_number(device, "power.limit", 1000, milliwatts);
}

EXPORT int nvmlDeviceGetTemperature(device_t device, int sensor, unsigned int *celsius)
{
    return sensor ? INVALID_ARGUMENT : ask_number(device, "temperature.gpu", 1, celsius);
}

EXPORT int nvmlDeviceGetClockInfo(device_t device, int clock, unsigned int *mhz)
{
    return ask_number(device, clock == 2 ? "clocks.mem" : "clocks.sm", 1, mhz);
}

static int ask_long(device_t device, const char *key, unsigned long long *answer)
{
    char line[LINE], value[64];
    int state = ask(device, line);
    if (state != SUCCESS)
        return state;
    if (!field(line, key, value, sizeof value))
        return NOT_SUPPORTED;
    *answer = strtoull(value, NULL, 0);
    return SUCCESS;
}

EXPORT int nvmlDeviceGetCurrentClocksThrottleReasons(device_t device, unsigned long long *reasons)
{
    return ask_long(device, "clocks_throttle_reasons.active", reasons);
}

EXPORT int nvmlDeviceGetTotalEccErrors(
    device_t device, int type, int counter, unsigned long long *count)
{
    const char *key = type ? "ecc.errors.uncorrected.volatile.total"
                           : "ecc.errors.corrected.volatile.total";
    return counter ? NOT_SUPPORTED : ask_long(device, key, count);
}

EXPORT int nvmlDeviceGetPcieReplayCounter(device_t device, unsigned int *count)
{
    return ask_number(device, "pcie.replays", 1, count);
}

/* Since Ampere rows are remapped; before, pages were retired, and each kind lacks the other's. */
EXPORT int nvmlDeviceGetRemappedRows(
    device_t device, unsigned int *corrected, unsigned int *uncorrected,
    unsigned int *pending, unsigned int *failed)
{
    int state = ask_number(device, "remapped_rows.correctable", 1, corrected);
    if (state != SUCCESS)
        return state;
    ask_number(device, "remapped_rows.uncorrectable", 1, uncorrected);
    ask_number(device, "remapped_rows.pending", 1, pending);
    return ask_number(device, "remapped_rows.failure", 1, failed);
}

EXPORT int nvmlDeviceGetRetiredPages(
    device_t device, int cause, unsigned int *count, unsigned long long *addresses)
{
    unsigned int known, at;
    int state = ask_number(device, cause ? "retired_pages.double" : "retired_pages.single", 1, &known);
    if (state != SUCCESS)
        return state;
    if (*count < known) {
        *count = known;
        return INSUFFICIENT_SIZE;
    }
    *count = known;
    for (at = 0; addresses && at < known; at++)
        addresses[at] = 0x1000ULL * (at + 1);
    return SUCCESS;
}

EXPORT int nvmlDeviceGetRetiredPagesPendingStatus(device_t device, int *pending)
{
    return ask_number(device, "retired_pages.pending", 1, (unsigned int *)pending);
}

typedef struct {
    unsigned int id, scope;
    long long timestamp, latency;
    int type, status;
    union { double d; unsigned int u; unsigned long long ull; } value;
} value_t;

/* Each value has an answer of its own; NVLink's totals are gone in the drivers of today. */
EXPORT int nvmlDeviceGetFieldValues(device_t device, int count, value_t *values)
{
    static const struct { unsigned int id; const char *key; } known[] = {
        {38, "nvlink.crc_flit"}, {45, "nvlink.crc_data"}, {52, "nvlink.replay"},
        {59, "nvlink.recovery"}, {160, "nvlink.ecc_data"},
    };
    char line[LINE];
    int at, state = ask(device, line);
    size_t one;
    for (at = 0; state == SUCCESS && at < count; at++) {
        values[at].status = NOT_SUPPORTED;
        for (one = 0; one < sizeof known / sizeof *known; one++)
            if (DRIVER < 535 && known[one].id == values[at].id) {
                values[at].type = 3;
                values[at].status = ask_long(device, known[one].key, &values[at].value.ull);
            }
    }
    return state;
}

/* An H200 has 18 links; the samples' totals are all on the first. */
EXPORT int nvmlDeviceGetNvLinkErrorCounter(
    device_t device, unsigned int link, int kind, unsigned long long *count)
{
    static const char *keys[] = {"nvlink.replay", "nvlink.recovery", "nvlink.crc_flit"};
    int state;
    if (link >= 18 || kind < 0)
        return INVALID_ARGUMENT;
    if (kind > 2)
        return NOT_SUPPORTED;
    state = ask_long(device, keys[kind], count);
    if (link)
        *count = 0;
    return state;
}

/* ---- MIG ----------------------------------------------------------------------------------- */

EXPORT int nvmlDeviceGetMigMode(device_t device, unsigned int *current, unsigned int *pending)
{
    char mode[32];
    int state = ask_text(device, "mig.mode.current", mode, sizeof mode);
    if (state == SUCCESS)
        *current = *pending = strcmp(mode, "Enabled") == 0;
    return state;
}

EXPORT int nvmlDeviceGetMaxMigDeviceCount(device_t device, unsigned int *count)
{
    unsigned int current, pending;
    int state = nvmlDeviceGetMigMode(device, &current, &pending);
    if (state == SUCCESS)
        *count = current ? 7 : 0;
    return state;
}

EXPORT int nvmlDeviceGetMigDeviceHandleByIndex(
    device_t device, unsigned int index, device_t *part)
{
    char line[LINE];
    int state = ask(device, line);
    if (state != SUCCESS)
        return state;
    if (index >= MOST || device->mig >= 0)
        return INVALID_ARGUMENT;
    state = ask(&parts[device->gpu][index], line);
    if (state == SUCCESS)
        *part = &parts[device->gpu][index];
    return state;
}

static int ask_instance(device_t device, const char *key, unsigned int *id)
{
    char line[LINE];
    int state = ask(device, line);
    if (state == SUCCESS && device->mig < 0)
        return NOT_SUPPORTED;
    if (state == SUCCESS)
        *id = (unsigned int)number(line, key, 0);
    return state;
}

EXPORT int nvmlDeviceGetGpuInstanceId(device_t device, unsigned int *id)
{
    return ask_instance(device, "gi", id);
}

EXPORT int nvmlDeviceGetComputeInstanceId(device_t device, unsigned int *id)
{
    return ask_instance(device, "ci", id);
}

/* ---- who is on a GPU ------------------------------------------------------------------------ */

typedef struct { unsigned int pid; unsigned long long used; } process_v1_t;
typedef struct { unsigned int pid; unsigned long long used; unsigned int gi, ci; } process_v2_t;
/* Drivers 535.43 to 535.86 told a further number under the same name as the others. */
typedef struct {
    unsigned int pid;
    unsigned long long used;
    unsigned int gi, ci;
    unsigned long long protected_memory;
} process_535_t;

/* Inside a container the driver tells of nobody, unless the samples say that it does. */
static int tells_here(const char *line)
{
    return access("/etc/pve/nodes", F_OK) == 0 || number(line, "inside", 0)
        || getenv("ORCH_LAB_GPU_SAMPLES") != NULL;
}

static int processes(
    device_t device, const char *type, unsigned int *count, char *into, size_t size)
{
    char line[LINE], mine[LINE], kind[16];
    unsigned int found = 0, room = *count;
    int state = ask(device, mine);
    FILE *file;
    if (state != SUCCESS)
        return state;
    file = open_samples();
    while (file && next_line(file, "process", line)) {
        process_535_t one = {0};
        if (number(line, "gpu", -1) != (long long)device->gpu || !tells_here(line))
            continue;
        if (!field(line, "type", kind, sizeof kind))
            strcpy(kind, "C");
        if (strcmp(kind, type) != 0)
            continue;
        if (device->mig >= 0 && number(line, "gi", -1) != number(mine, "gi", -2))
            continue;
        one.pid = (unsigned int)number(line, "pid", 0);
        one.used = number(line, "used_memory", -1) < 0
                 ? ~0ULL : (unsigned long long)number(line, "used_memory", 0) * MIB;
        one.gi = (unsigned int)number(line, "gi", NOT_AVAILABLE);
        one.ci = (unsigned int)number(line, "ci", NOT_AVAILABLE);
        if (into && found < room)
            memcpy(into + found * size, &one, size);
        found++;
    }
    if (file)
        fclose(file);
    *count = found;
    return found > room || (!into && found) ? INSUFFICIENT_SIZE : SUCCESS;
}

#define PROCESSES(name, kind, layout) \
    EXPORT int name(device_t device, unsigned int *count, layout *into) \
    { \
        return processes(device, kind, count, (char *)into, sizeof *into); \
    }

PROCESSES(nvmlDeviceGetComputeRunningProcesses, "C", process_v1_t)
PROCESSES(nvmlDeviceGetGraphicsRunningProcesses, "G", process_v1_t)
#if DRIVER >= 450
PROCESSES(nvmlDeviceGetComputeRunningProcesses_v2, "C", process_v2_t)
PROCESSES(nvmlDeviceGetGraphicsRunningProcesses_v2, "G", process_v2_t)
#endif
#if DRIVER == 535
PROCESSES(nvmlDeviceGetComputeRunningProcesses_v3, "C", process_535_t)
PROCESSES(nvmlDeviceGetGraphicsRunningProcesses_v3, "G", process_535_t)
#elif DRIVER >= 510
PROCESSES(nvmlDeviceGetComputeRunningProcesses_v3, "C", process_v2_t)
PROCESSES(nvmlDeviceGetGraphicsRunningProcesses_v3, "G", process_v2_t)
#endif

/* ---- Xid ------------------------------------------------------------------------------------ */

#define XID_EVENT 8ULL

typedef struct { unsigned long long registered; long long seen; } events_t;
typedef struct {
    device_t device;
    unsigned long long type, value;
    unsigned int gi, ci;
} event_t;

/* `xid` lines of the samples are events, in their order; those there at the start are past. */
static long long xids(long long after, char *line)
{
    long long at = 0;
    FILE *file = open_samples();
    while (file && at <= after && next_line(file, "xid", line))
        at++;
    if (file)
        fclose(file);
    return at;
}

EXPORT int nvmlEventSetCreate(events_t **set)
{
    char line[LINE];
    if (!initialised)
        return UNINITIALIZED;
    *set = calloc(1, sizeof **set);
    (*set)->seen = xids(1LL << 40, line);
    return SUCCESS;
}

EXPORT int nvmlDeviceRegisterEvents(device_t device, unsigned long long types, events_t *set)
{
    char line[LINE];
    int state = ask(device, line);
    if (state == SUCCESS)
        set->registered |= types;
    return state;
}

EXPORT int nvmlEventSetWait_v2(events_t *set, event_t *event, unsigned int milliseconds)
{
    char line[LINE];
    unsigned int waited;
    for (waited = 0; waited <= milliseconds; waited += 10) {
        if ((set->registered & XID_EVENT) && xids(set->seen, line) > set->seen) {
            set->seen++;
            memset(event, 0, sizeof *event);
            event->device = &gpus[number(line, "gpu", 0) % MOST];
            event->type = XID_EVENT;
            event->value = (unsigned long long)number(line, "xid", 0);
            event->gi = event->ci = NOT_AVAILABLE;
            return SUCCESS;
        }
        usleep(10000);
    }
    return TIMED_OUT;
}

EXPORT int nvmlEventSetFree(events_t *set)
{
    free(set);
    return SUCCESS;
}
