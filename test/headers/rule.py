"""Which functions of HIP are about memory, by their names, and which of these need no row in src/hip/hip_api.def, and why.

A function whose name matches CONCERNED must have a row, or match one of EXEMPT. A new release that adds a function cannot add
a hole unseen: its name is not exempt, so the test fails until somebody has looked.
"""

CONCERNED = "|".join((
    "Malloc", "Alloc", "Free", "Mem", "Array", "Pool", "Pitch", "Managed", "Heap",         # memory by its name
    "Export", "Import", "External", "Ipc", "Graphics", "Dmabuf", "AddressRange", "Shareable",  # memory of somebody else
    "Prefetch", "Advise", "HostRegister", "HostUnregister", "HostGet", "Pointer", "Limit",    # what is said and asked about it
    "GraphLaunch", "GraphInstantiate", "GraphUpload", "GraphAddNode", "GraphExecDestroy", "GraphDestroy",  # launches that take it
    "Reset", "PrimaryCtx", "CtxCreate", "CtxDestroy",                                   # ends of everything
    "DeviceProp", "ChooseDevice", "DeviceGetAttribute",                                 # totals
    "SetDevice", "SetValidDevices", "CtxSetCurrent", "CtxPushCurrent", "CtxPopCurrent", # whose memory it will be
    "ModuleLoad", "LibraryLoad", "ModuleUnload", "LibraryUnload", "LinkComplete", "RegisterFatBinary", "RegisterVar",
    "SymbolAddress", "SymbolSize", "ModuleGetGlobal",                                   # memory of code
    "ProcAddress", "EntryPoint",                                                        # ways to all of these
))

EXEMPT = (
    (r"hip(Drv)?Memcpy.*", "copies what is there"),
    (r"hipMemset.*", "fills what is there"),
    (r"hip(Drv)?Graph(Add|Exec)?Mem(cpy|set).*", "a node that copies or fills"),
    (r"hip(Stream|Graph(Add|Exec)?)BatchMemOp.*", "waits for words and writes them"),
    (r"hip.*ExternalSemaphore.*", "semaphores"),
    (r"hipIpc(Get|Open)EventHandle", "events"),
    (r"hip(Ctx|Device|Func)[GS]etSharedMemConfig", "banks of a compute unit's own memory"),
    (r"hipOccupancy.*SMem.*", "a compute unit's own memory"),
    (r"hip(BindTexture|TexRef[GS]et|GetTexture).*", "a texture is a view"),
    (r"hiprtcLinkComplete", "links code in host memory"),
    (r"hipExternalMemoryGetMappedMipmappedArray", "in headers of 6.4 and 7.2; exported by no release"),
)
