/* Wine 8 lacks this library, from which programs of Rust take random numbers. */
#include <windows.h>

BOOLEAN NTAPI SystemFunction036(PVOID into, ULONG bytes);

__declspec(dllexport) BOOL WINAPI ProcessPrng(PBYTE into, SIZE_T bytes) {
    return SystemFunction036(into, (ULONG)bytes);
}
