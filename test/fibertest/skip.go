//go:build unix

package fibertest

// onThisMachine are the tests that are about processes of this machine and
// run on the local backend alone. All others run on every backend.
var onThisMachine = map[string][]string{
	"they look at process ids, or signal them": {
		"TestProcess", "TestProcessIsAlive", "TestTerminateProcess", "TestKillProcess", "TestClose", "TestTerminate", "TestStats", "TestTimeout",
		"TestMaxAttemptsOneNeverRunsATaskAgain", "TestKilledRootLeavesNobody", "TestKilledMiddleLeavesNobodyBelow",
		"TestInterrupt", "TestChildrenAreToldEvenIfRunGoesOn", "TestSecondSignalEndsAtOnce", "TestSuspended",
		"TestWhatAProcessLeavesRunningIsEnded", "TestStuckTasksLeaveNoProcesses", "TestUnsendableTasksLeaveNoProcesses",
		"TestProgramsOfAProcessAreNoChildrenOfFibers", "TestChaos",
		"TestWhatIsSaidOfALostWorker", "TestWhatAProcessStartsEndsWithIt", "TestWhatProcessesStartEndsWithTheRoot", "TestStoppedGuardEndsWithTheRoot",
		"TestNestedProcesses", "TestActiveChildren", "TestSharedValueOfAWorker", "TestSharedMemoryOfAKilledProcess", "TestReduceThroughALoss", "TestCancel", "TestCloseEndsAfterASignal", "ExampleWithMaxTasksPerChild",
	},
	"they look at process ids, or signal them, of homes, managers and ranks": {
		"TestQueueOfAKilledProcess", "TestChaosOfAQueue", "TestEndOfThePipesHome", "TestManagerThatCannotListen",
		"TestManagerKilled", "TestManagerClosed", "TestManagerOptions", "TestAbandonedLockElsewhere", "TestSemaphoreBetweenProcesses",
		"TestItemOfAKilledConsumerGoesBackToTheFront", "TestLateAnswerGivesTheItemBack", "TestManagedObject", "TestEndOfTheManager/killed", "TestEndOfTheManager/told", "TestOneErrorForAnEndedManager/told_to", "TestOneErrorForAnEndedManager/killed",
		"TestObjectsLiveWhileTheyAreHeld/in_a_process_that_is_killed",
		"TestConsumerDiesBeforeItsClaim", "TestEndThatIsStillComing", "TestReaderDiesBeforeItsClaim", "TestPutsThatEndWhileTheHomeIsStopped", "TestCloseWhileTheHomeIsStopped", "TestCloseOfAStoppedManager", "TestTaskBeginsWithItsEnd", "TestReturnedToAStoppedProcess",
		"TestRing", "TestLostRank", "TestHeedlessRanksAreKilled", "TestRingRunsAgain", "TestCancelledRing", "TestKilledRootLeavesNoRing",
	},
	"they stop, kill and end processes of this machine": {"TestWaits"},
	"they are about what a process inherits": {
		"TestMoreThanAThousandOpenFiles", "TestAChildWhoseParentIsGoneIsSilent", "TestCurrentAndParentProcess",
		"TestGarbageAtEverySocket", "TestLimitsAreNotInherited", "TestForwardLogs", "TestSharedValueThroughAGap",
	},
	"they start other executables, or scripts": {"TestStartThatHangs", "TestExecutableGoesFromDisk", "TestAnotherBuild"},
	"they are about this machine's resources": {"TestLimitsOfWorkers", "TestProcessMeta", "TestGPUs", "TestMoreGPUsThanTheMachineHas", "TestRingWithTooManyGPUs", "TestBadArguments",
		"TestRingThatCannotStart", "TestManagerThatCannotStart", "TestOptionsOfARing", "TestOptionsOfGo"},
	"they run no process":                                  {"TestReadmeProgram", "TestTutorial", "TestPackagesAreDocumented", "TestDependencies", "TestTableIsWhole", "TestTableHasAllSettings"},
	"they expect workers to be up within milliseconds":     {"TestSpread/cold"},
	"their output has the processes' names in front there": {"ExampleProcess", "ExampleProcess_nested", "ExampleProcess_Logs", "ExampleRing", "ExampleAllReduce"},
	"a child writes to a file of this machine":             {"ExampleWithMaxAttempts"},
}

// notOnACluster are those that run on all backends but kubernetes.
var notOnACluster = map[string][]string{
	"they expect workers to be up within a second or two": {"TestWorkersThatDieYoung"},
	"they want more CPUs than a small cluster has":        {"TestPoolWithOtherResources"},
	"they measure fractions of a second":                  {"TestSpread"},
	"each pod has a copy of its own":                      {"TestSharedMemoryIsNobodys"},
	"they are about containers, or have been run":         {"TestContainer", "TestPod", "TestOutputOf", "TestChaosOf", "TestARootInAPod", ".*APIServer"},
}

// longOnACluster are those that -short leaves out there: each starts dozens of
// pods, one after another, to see again what other tests see of a few.
var longOnACluster = []string{"TestManyRings", "TestLastMessages", "TestRanksThatDisagree", "TestFailingRank", "TestSpecialNumbers", "TestManagersAndProxiesLeaveNothing",
	"TestKilledHandingTheEndOn", "TestKilledTakingAnEnd", "TestPoolsThatEndAreSilent"}
