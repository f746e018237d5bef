//go:build unix

package fiber_test

import (
	"flag"
	"hash/fnv"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// backendKey names the backend that the tests run on; local when it is not
// set.
const backendKey = "FIBER_TEST_BACKEND"

// onThisMachine are the tests that are about processes of this machine and
// run on the local backend alone. All others run on every backend.
var onThisMachine = map[string][]string{
	"they look at process ids, or signal them": {
		"TestProcess", "TestProcessIsAlive", "TestTerminateProcess", "TestKillProcess", "TestClose", "TestTerminate", "TestStats", "TestTimeout",
		"TestMaxAttemptsOneNeverRunsATaskAgain", "TestKilledRootLeavesNobody", "TestKilledMiddleLeavesNobodyBelow",
		"TestInterrupt", "TestChildrenAreToldEvenIfRunGoesOn", "TestSecondSignalEndsAtOnce", "TestSuspended",
		"TestWhatAProcessLeavesRunningIsEnded", "TestStuckTasksLeaveNoProcesses", "TestUnsendableTasksLeaveNoProcesses",
		"TestProgramsOfAProcessAreNoChildrenOfFibers", "TestChaos",
		"TestWhatIsSaidOfALostWorker", "TestWhatAProcessStartsEndsWithIt", "TestWhatProcessesStartEndsWithTheRoot",
		"TestNestedProcesses", "TestActiveChildren", "TestSharedValueOfAWorker", "TestCancel", "ExampleWithMaxTasksPerChild",
	},
	"they look at process ids, or signal them, of homes, managers and ranks": {
		"TestQueueOfAKilledProcess", "TestChaosOfAQueue", "TestEndOfThePipesHome", "TestManagerThatCannotListen",
		"TestManagerKilled", "TestManagerClosed", "TestManagerOptions", "TestAbandonedLockElsewhere", "TestSemaphoreBetweenProcesses",
		"TestItemOfAKilledConsumerGoesBackToTheFront", "TestLateAnswerGivesTheItemBack", "TestManagedObject", "TestEndOfTheManager/killed", "TestEndOfTheManager/told",
		"TestObjectsLiveWhileTheyAreHeld/in_a_process_that_is_killed",
		"TestConsumerDiesBeforeItsClaim", "TestReaderDiesBeforeItsClaim", "TestTaskBeginsWithItsEnd", "TestReturnedToAStoppedProcess",
		"TestRing", "TestLostRank", "TestHeedlessRanksAreKilled", "TestRingRunsAgain", "TestCancelledRing", "TestKilledRootLeavesNoRing",
	},
	"they are about what a process inherits": {
		"TestMoreThanAThousandOpenFiles", "TestAChildWhoseParentIsGoneIsSilent", "TestCurrentAndParentProcess",
		"TestGarbageAtEverySocket", "TestLimitsAreNotInherited", "TestForwardLogs", "TestSharedValueThroughAGap",
	},
	"they start other executables, or scripts": {"TestStartThatHangs", "TestExecutableGoesFromDisk", "TestAnotherBuild"},
	"they are about this machine's resources": {"TestLimitsOfWorkers", "TestProcessMeta", "TestGPUs", "TestMoreGPUsThanTheMachineHas", "TestBadArguments",
		"TestRingThatCannotStart", "TestManagerThatCannotStart"},
	"they run no process":                                  {"TestReadmeProgram", "TestTutorial", "TestPackagesAreDocumented", "TestDependencies"},
	"they expect workers to be up within milliseconds":     {"TestSpread/cold"},
	"their output has the processes' names in front there": {"ExampleProcess", "ExampleProcess_nested", "ExampleProcess_Logs", "ExampleRing", "ExampleAllReduce"},
	"a child writes to a file of this machine":             {"ExampleWithMaxAttempts"},
}

// notOnACluster are those that run on all backends but kubernetes.
var notOnACluster = map[string][]string{
	"they expect workers to be up within a second or two": {"TestWorkersThatDieYoung"},
	"they want more CPUs than a small cluster has":        {"TestPoolWithOtherResources"},
	"they measure fractions of a second":                  {"TestSpread"},
	"they are about containers, or have been run":         {"TestContainer", "TestPod", "TestOutputOf", "TestChaosOf", "TestARootInAPod", ".*APIServer"},
}

// longOnACluster are those that -short leaves out there: each starts dozens of
// pods, one after another, to see again what other tests see of a few.
var longOnACluster = []string{"TestManyRings", "TestLastMessages", "TestRanksThatDisagree", "TestFailingRank", "TestSpecialNumbers", "TestManagersAndProxiesLeaveNothing",
	"TestKilledHandingTheEndOn", "TestKilledTakingAnEnd", "TestPoolsThatEndAreSilent"}

// elsewhere has the tests, and the programs that they start, run on another
// backend. Its children have the tests' temporary files.
func elsewhere(backend, dir string) {
	files := filepath.Join(dir, "files")
	syscall.Umask(0) // its children are other users
	if err := os.Mkdir(files, 0o777); err != nil {
		panic(err)
	}
	for key, value := range map[string]string{
		"FIBER_BACKEND": backend, "TMPDIR": files, "FIBER_DOCKER_VOLUMES": files + ":" + files,
	} {
		os.Setenv(key, value)
	}
	flag.Parse()
	var skipped []string
	if backend == "kubernetes" {
		onCluster(files)
		for _, names := range notOnACluster {
			for _, name := range names {
				skipped = append(skipped, "^"+name)
			}
		}
		if testing.Short() {
			skipped = append(skipped, longOnACluster...)
		}
	}
	for _, names := range onThisMachine {
		for _, name := range names {
			skipped = append(skipped, "^"+strings.ReplaceAll(name, "/", "$/^"))
			if !strings.Contains(name, "/") {
				skipped[len(skipped)-1] += "$"
			}
		}
	}
	flag.Set("test.skip", strings.Join(skipped, "|"))
}

// pace is how much longer a test's work is for workers that take longer to
// come up.
func pace() int {
	if b := os.Getenv(backendKey); b != "" && b != "local" {
		return 5
	}
	return 1
}

// paced is how long something may take that takes d at most with local workers.
func paced(d time.Duration) time.Duration { return time.Duration(pace()) * d }

// self tells this process from all others of a run.
func self() int {
	if b := os.Getenv(backendKey); b != "" && b != "local" {
		// Each has process ids of its own there, and a host name.
		host, _ := os.Hostname()
		if id, err := strconv.ParseInt(host, 16, 63); err == nil {
			return int(id)
		}
		sum := fnv.New32()
		sum.Write([]byte(host))
		return int(sum.Sum32())
	}
	return os.Getpid()
}

// openDir is a temporary directory that children on every backend can write
// to.
func openDir(t testing.TB) string {
	dir := t.TempDir()
	if b := os.Getenv(backendKey); b != "" && b != "local" {
		os.Chmod(filepath.Dir(dir), 0o777)
	}
	return dir
}
