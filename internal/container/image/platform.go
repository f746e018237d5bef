package image

import "debug/elf"

// Platform is an operating system and a CPU, in Go's words: linux and amd64.
type Platform struct{ OS, Arch string }

func (p Platform) String() string { return p.OS + "/" + p.Arch }

// machines are the CPUs that an ELF file may be for. A program in Go says by itself what it was built for; this is for others.
var machines = map[elf.Machine]string{
	elf.EM_386:       "386",
	elf.EM_X86_64:    "amd64",
	elf.EM_ARM:       "arm",
	elf.EM_AARCH64:   "arm64",
	elf.EM_LOONGARCH: "loong64",
	elf.EM_PPC64:     "ppc64le",
	elf.EM_RISCV:     "riscv64",
	elf.EM_S390:      "s390x",
}
