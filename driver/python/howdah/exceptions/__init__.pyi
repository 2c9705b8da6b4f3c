# Made by driver/tools/generate_stubs.py.
from ._base import ClientConfigurationError as ClientConfigurationError
from ._base import FatalPostgresError as FatalPostgresError
from ._base import InterfaceError as InterfaceError
from ._base import InterfaceWarning as InterfaceWarning
from ._base import InternalClientError as InternalClientError
from ._base import OutdatedSchemaCacheError as OutdatedSchemaCacheError
from ._base import PostgresError as PostgresError
from ._base import PostgresLogMessage as PostgresLogMessage
from ._base import ProtocolError as ProtocolError
from ._base import TargetServerAttributeNotMatched as TargetServerAttributeNotMatched
from ._base import UnknownPostgresError as UnknownPostgresError
from ._base import UnsupportedClientFeatureError as UnsupportedClientFeatureError
from ._base import UnsupportedServerFeatureError as UnsupportedServerFeatureError
from ._generated import ActiveSQLTransactionError as ActiveSQLTransactionError
from ._generated import AdminShutdownError as AdminShutdownError
from ._generated import AmbiguousAliasError as AmbiguousAliasError
from ._generated import AmbiguousColumnError as AmbiguousColumnError
from ._generated import AmbiguousFunctionError as AmbiguousFunctionError
from ._generated import AmbiguousParameterError as AmbiguousParameterError
from ._generated import ArraySubscriptError as ArraySubscriptError
from ._generated import AssertError as AssertError
from ._generated import BadCopyFileFormatError as BadCopyFileFormatError
from ._generated import BranchTransactionAlreadyActiveError as BranchTransactionAlreadyActiveError
from ._generated import CannotCoerceError as CannotCoerceError
from ._generated import CannotConnectNowError as CannotConnectNowError
from ._generated import CantChangeRuntimeParamError as CantChangeRuntimeParamError
from ._generated import CardinalityViolationError as CardinalityViolationError
from ._generated import CaseNotFoundError as CaseNotFoundError
from ._generated import CharacterNotInRepertoireError as CharacterNotInRepertoireError
from ._generated import CheckViolationError as CheckViolationError
from ._generated import ClientCannotConnectError as ClientCannotConnectError
from ._generated import CollationMismatchError as CollationMismatchError
from ._generated import ConfigFileError as ConfigFileError
from ._generated import ConfigurationLimitExceededError as ConfigurationLimitExceededError
from ._generated import ConnectionDoesNotExistError as ConnectionDoesNotExistError
from ._generated import ConnectionFailureError as ConnectionFailureError
from ._generated import ConnectionRejectionError as ConnectionRejectionError
from ._generated import ContainingSQLNotPermittedError as ContainingSQLNotPermittedError
from ._generated import CrashShutdownError as CrashShutdownError
from ._generated import DataCorruptedError as DataCorruptedError
from ._generated import DataError as DataError
from ._generated import DatabaseDroppedError as DatabaseDroppedError
from ._generated import DatatypeMismatchError as DatatypeMismatchError
from ._generated import DatetimeFieldOverflowError as DatetimeFieldOverflowError
from ._generated import DeadlockDetectedError as DeadlockDetectedError
from ._generated import DependentObjectsStillExistError as DependentObjectsStillExistError
from ._generated import DependentPrivilegeDescriptorsStillExistError as DependentPrivilegeDescriptorsStillExistError
from ._generated import DeprecatedFeature as DeprecatedFeature
from ._generated import DiagnosticsError as DiagnosticsError
from ._generated import DiskFullError as DiskFullError
from ._generated import DivisionByZeroError as DivisionByZeroError
from ._generated import DuplicateAliasError as DuplicateAliasError
from ._generated import DuplicateColumnError as DuplicateColumnError
from ._generated import DuplicateCursorError as DuplicateCursorError
from ._generated import DuplicateDatabaseError as DuplicateDatabaseError
from ._generated import DuplicateFileError as DuplicateFileError
from ._generated import DuplicateFunctionError as DuplicateFunctionError
from ._generated import DuplicateJsonObjectKeyValueError as DuplicateJsonObjectKeyValueError
from ._generated import DuplicateObjectError as DuplicateObjectError
from ._generated import DuplicatePreparedStatementError as DuplicatePreparedStatementError
from ._generated import DuplicateSchemaError as DuplicateSchemaError
from ._generated import DuplicateTableError as DuplicateTableError
from ._generated import DynamicResultSetsReturned as DynamicResultSetsReturned
from ._generated import ErrorInAssignmentError as ErrorInAssignmentError
from ._generated import EscapeCharacterConflictError as EscapeCharacterConflictError
from ._generated import EventTriggerProtocolViolatedError as EventTriggerProtocolViolatedError
from ._generated import ExclusionViolationError as ExclusionViolationError
from ._generated import ExternalRoutineError as ExternalRoutineError
from ._generated import ExternalRoutineInvocationError as ExternalRoutineInvocationError
from ._generated import FDWColumnNameNotFoundError as FDWColumnNameNotFoundError
from ._generated import FDWDynamicParameterValueNeededError as FDWDynamicParameterValueNeededError
from ._generated import FDWError as FDWError
from ._generated import FDWFunctionSequenceError as FDWFunctionSequenceError
from ._generated import FDWInconsistentDescriptorInformationError as FDWInconsistentDescriptorInformationError
from ._generated import FDWInvalidAttributeValueError as FDWInvalidAttributeValueError
from ._generated import FDWInvalidColumnNameError as FDWInvalidColumnNameError
from ._generated import FDWInvalidColumnNumberError as FDWInvalidColumnNumberError
from ._generated import FDWInvalidDataTypeDescriptorsError as FDWInvalidDataTypeDescriptorsError
from ._generated import FDWInvalidDataTypeError as FDWInvalidDataTypeError
from ._generated import FDWInvalidDescriptorFieldIdentifierError as FDWInvalidDescriptorFieldIdentifierError
from ._generated import FDWInvalidHandleError as FDWInvalidHandleError
from ._generated import FDWInvalidOptionIndexError as FDWInvalidOptionIndexError
from ._generated import FDWInvalidOptionNameError as FDWInvalidOptionNameError
from ._generated import FDWInvalidStringFormatError as FDWInvalidStringFormatError
from ._generated import FDWInvalidStringLengthOrBufferLengthError as FDWInvalidStringLengthOrBufferLengthError
from ._generated import FDWInvalidUseOfNullPointerError as FDWInvalidUseOfNullPointerError
from ._generated import FDWNoSchemasError as FDWNoSchemasError
from ._generated import FDWOptionNameNotFoundError as FDWOptionNameNotFoundError
from ._generated import FDWOutOfMemoryError as FDWOutOfMemoryError
from ._generated import FDWReplyHandleError as FDWReplyHandleError
from ._generated import FDWSchemaNotFoundError as FDWSchemaNotFoundError
from ._generated import FDWTableNotFoundError as FDWTableNotFoundError
from ._generated import FDWTooManyHandlesError as FDWTooManyHandlesError
from ._generated import FDWUnableToCreateExecutionError as FDWUnableToCreateExecutionError
from ._generated import FDWUnableToCreateReplyError as FDWUnableToCreateReplyError
from ._generated import FDWUnableToEstablishConnectionError as FDWUnableToEstablishConnectionError
from ._generated import FeatureNotSupportedError as FeatureNotSupportedError
from ._generated import FileNameTooLongError as FileNameTooLongError
from ._generated import ForeignKeyViolationError as ForeignKeyViolationError
from ._generated import FunctionExecutedNoReturnStatementError as FunctionExecutedNoReturnStatementError
from ._generated import GeneratedAlwaysError as GeneratedAlwaysError
from ._generated import GroupingError as GroupingError
from ._generated import HeldCursorRequiresSameIsolationLevelError as HeldCursorRequiresSameIsolationLevelError
from ._generated import IdleInTransactionSessionTimeoutError as IdleInTransactionSessionTimeoutError
from ._generated import IdleSessionTimeoutError as IdleSessionTimeoutError
from ._generated import ImplicitZeroBitPadding as ImplicitZeroBitPadding
from ._generated import InFailedSQLTransactionError as InFailedSQLTransactionError
from ._generated import InappropriateAccessModeForBranchTransactionError as InappropriateAccessModeForBranchTransactionError
from ._generated import InappropriateIsolationLevelForBranchTransactionError as InappropriateIsolationLevelForBranchTransactionError
from ._generated import IndeterminateCollationError as IndeterminateCollationError
from ._generated import IndeterminateDatatypeError as IndeterminateDatatypeError
from ._generated import IndexCorruptedError as IndexCorruptedError
from ._generated import IndicatorOverflowError as IndicatorOverflowError
from ._generated import InsufficientPrivilegeError as InsufficientPrivilegeError
from ._generated import InsufficientResourcesError as InsufficientResourcesError
from ._generated import IntegrityConstraintViolationError as IntegrityConstraintViolationError
from ._generated import InternalServerError as InternalServerError
from ._generated import IntervalFieldOverflowError as IntervalFieldOverflowError
from ._generated import InvalidArgumentForLogarithmError as InvalidArgumentForLogarithmError
from ._generated import InvalidArgumentForNthValueFunctionError as InvalidArgumentForNthValueFunctionError
from ._generated import InvalidArgumentForNtileFunctionError as InvalidArgumentForNtileFunctionError
from ._generated import InvalidArgumentForPowerFunctionError as InvalidArgumentForPowerFunctionError
from ._generated import InvalidArgumentForSQLJsonDatetimeFunctionError as InvalidArgumentForSQLJsonDatetimeFunctionError
from ._generated import InvalidArgumentForWidthBucketFunctionError as InvalidArgumentForWidthBucketFunctionError
from ._generated import InvalidArgumentForXqueryError as InvalidArgumentForXqueryError
from ._generated import InvalidAuthorizationSpecificationError as InvalidAuthorizationSpecificationError
from ._generated import InvalidBinaryRepresentationError as InvalidBinaryRepresentationError
from ._generated import InvalidCachedStatementError as InvalidCachedStatementError
from ._generated import InvalidCatalogNameError as InvalidCatalogNameError
from ._generated import InvalidCharacterValueForCastError as InvalidCharacterValueForCastError
from ._generated import InvalidColumnDefinitionError as InvalidColumnDefinitionError
from ._generated import InvalidColumnReferenceError as InvalidColumnReferenceError
from ._generated import InvalidCursorDefinitionError as InvalidCursorDefinitionError
from ._generated import InvalidCursorNameError as InvalidCursorNameError
from ._generated import InvalidCursorStateError as InvalidCursorStateError
from ._generated import InvalidDatabaseDefinitionError as InvalidDatabaseDefinitionError
from ._generated import InvalidDatetimeFormatError as InvalidDatetimeFormatError
from ._generated import InvalidEscapeCharacterError as InvalidEscapeCharacterError
from ._generated import InvalidEscapeOctetError as InvalidEscapeOctetError
from ._generated import InvalidEscapeSequenceError as InvalidEscapeSequenceError
from ._generated import InvalidForeignKeyError as InvalidForeignKeyError
from ._generated import InvalidFunctionDefinitionError as InvalidFunctionDefinitionError
from ._generated import InvalidGrantOperationError as InvalidGrantOperationError
from ._generated import InvalidGrantorError as InvalidGrantorError
from ._generated import InvalidIndicatorParameterValueError as InvalidIndicatorParameterValueError
from ._generated import InvalidJsonTextError as InvalidJsonTextError
from ._generated import InvalidLocatorSpecificationError as InvalidLocatorSpecificationError
from ._generated import InvalidNameError as InvalidNameError
from ._generated import InvalidObjectDefinitionError as InvalidObjectDefinitionError
from ._generated import InvalidParameterValueError as InvalidParameterValueError
from ._generated import InvalidPasswordError as InvalidPasswordError
from ._generated import InvalidPrecedingOrFollowingSizeError as InvalidPrecedingOrFollowingSizeError
from ._generated import InvalidPreparedStatementDefinitionError as InvalidPreparedStatementDefinitionError
from ._generated import InvalidRecursionError as InvalidRecursionError
from ._generated import InvalidRegularExpressionError as InvalidRegularExpressionError
from ._generated import InvalidRoleSpecificationError as InvalidRoleSpecificationError
from ._generated import InvalidRowCountInLimitClauseError as InvalidRowCountInLimitClauseError
from ._generated import InvalidRowCountInResultOffsetClauseError as InvalidRowCountInResultOffsetClauseError
from ._generated import InvalidSQLJsonSubscriptError as InvalidSQLJsonSubscriptError
from ._generated import InvalidSQLStatementNameError as InvalidSQLStatementNameError
from ._generated import InvalidSavepointSpecificationError as InvalidSavepointSpecificationError
from ._generated import InvalidSchemaDefinitionError as InvalidSchemaDefinitionError
from ._generated import InvalidSchemaNameError as InvalidSchemaNameError
from ._generated import InvalidSqlstateReturnedError as InvalidSqlstateReturnedError
from ._generated import InvalidTableDefinitionError as InvalidTableDefinitionError
from ._generated import InvalidTablesampleArgumentError as InvalidTablesampleArgumentError
from ._generated import InvalidTablesampleRepeatError as InvalidTablesampleRepeatError
from ._generated import InvalidTextRepresentationError as InvalidTextRepresentationError
from ._generated import InvalidTimeZoneDisplacementValueError as InvalidTimeZoneDisplacementValueError
from ._generated import InvalidTransactionInitiationError as InvalidTransactionInitiationError
from ._generated import InvalidTransactionStateError as InvalidTransactionStateError
from ._generated import InvalidTransactionTerminationError as InvalidTransactionTerminationError
from ._generated import InvalidUseOfEscapeCharacterError as InvalidUseOfEscapeCharacterError
from ._generated import InvalidXmlCommentError as InvalidXmlCommentError
from ._generated import InvalidXmlContentError as InvalidXmlContentError
from ._generated import InvalidXmlDocumentError as InvalidXmlDocumentError
from ._generated import InvalidXmlProcessingInstructionError as InvalidXmlProcessingInstructionError
from ._generated import LocatorError as LocatorError
from ._generated import LockFileExistsError as LockFileExistsError
from ._generated import LockNotAvailableError as LockNotAvailableError
from ._generated import ModifyingExternalRoutineSQLDataNotPermittedError as ModifyingExternalRoutineSQLDataNotPermittedError
from ._generated import ModifyingSQLDataNotPermittedError as ModifyingSQLDataNotPermittedError
from ._generated import MoreThanOneSQLJsonItemError as MoreThanOneSQLJsonItemError
from ._generated import MostSpecificTypeMismatchError as MostSpecificTypeMismatchError
from ._generated import NameTooLongError as NameTooLongError
from ._generated import NoActiveSQLTransactionError as NoActiveSQLTransactionError
from ._generated import NoActiveSQLTransactionForBranchTransactionError as NoActiveSQLTransactionForBranchTransactionError
from ._generated import NoAdditionalDynamicResultSetsReturned as NoAdditionalDynamicResultSetsReturned
from ._generated import NoData as NoData
from ._generated import NoDataFoundError as NoDataFoundError
from ._generated import NoSQLJsonItemError as NoSQLJsonItemError
from ._generated import NonNumericSQLJsonItemError as NonNumericSQLJsonItemError
from ._generated import NonUniqueKeysInAJsonObjectError as NonUniqueKeysInAJsonObjectError
from ._generated import NonstandardUseOfEscapeCharacterError as NonstandardUseOfEscapeCharacterError
from ._generated import NotAnXmlDocumentError as NotAnXmlDocumentError
from ._generated import NotNullViolationError as NotNullViolationError
from ._generated import NullValueEliminatedInSetFunction as NullValueEliminatedInSetFunction
from ._generated import NullValueInExternalRoutineNotAllowedError as NullValueInExternalRoutineNotAllowedError
from ._generated import NullValueNoIndicatorParameterError as NullValueNoIndicatorParameterError
from ._generated import NullValueNotAllowedError as NullValueNotAllowedError
from ._generated import NumericValueOutOfRangeError as NumericValueOutOfRangeError
from ._generated import ObjectInUseError as ObjectInUseError
from ._generated import ObjectNotInPrerequisiteStateError as ObjectNotInPrerequisiteStateError
from ._generated import OperatorInterventionError as OperatorInterventionError
from ._generated import OutOfMemoryError as OutOfMemoryError
from ._generated import PLPGSQLError as PLPGSQLError
from ._generated import PostgresConnectionError as PostgresConnectionError
from ._generated import PostgresFloatingPointError as PostgresFloatingPointError
from ._generated import PostgresIOError as PostgresIOError
from ._generated import PostgresSyntaxError as PostgresSyntaxError
from ._generated import PostgresSystemError as PostgresSystemError
from ._generated import PostgresWarning as PostgresWarning
from ._generated import PrivilegeNotGranted as PrivilegeNotGranted
from ._generated import PrivilegeNotRevoked as PrivilegeNotRevoked
from ._generated import ProgramLimitExceededError as ProgramLimitExceededError
from ._generated import ProhibitedExternalRoutineSQLStatementAttemptedError as ProhibitedExternalRoutineSQLStatementAttemptedError
from ._generated import ProhibitedSQLStatementAttemptedError as ProhibitedSQLStatementAttemptedError
from ._generated import ProtocolViolationError as ProtocolViolationError
from ._generated import QueryCanceledError as QueryCanceledError
from ._generated import RaiseError as RaiseError
from ._generated import ReadOnlySQLTransactionError as ReadOnlySQLTransactionError
from ._generated import ReadingExternalRoutineSQLDataNotPermittedError as ReadingExternalRoutineSQLDataNotPermittedError
from ._generated import ReadingSQLDataNotPermittedError as ReadingSQLDataNotPermittedError
from ._generated import ReservedNameError as ReservedNameError
from ._generated import RestrictViolationError as RestrictViolationError
from ._generated import SQLJsonArrayNotFoundError as SQLJsonArrayNotFoundError
from ._generated import SQLJsonItemCannotBeCastToTargetTypeError as SQLJsonItemCannotBeCastToTargetTypeError
from ._generated import SQLJsonMemberNotFoundError as SQLJsonMemberNotFoundError
from ._generated import SQLJsonNumberNotFoundError as SQLJsonNumberNotFoundError
from ._generated import SQLJsonObjectNotFoundError as SQLJsonObjectNotFoundError
from ._generated import SQLJsonScalarRequiredError as SQLJsonScalarRequiredError
from ._generated import SQLRoutineError as SQLRoutineError
from ._generated import SQLStatementNotYetCompleteError as SQLStatementNotYetCompleteError
from ._generated import SavepointError as SavepointError
from ._generated import SchemaAndDataStatementMixingNotSupportedError as SchemaAndDataStatementMixingNotSupportedError
from ._generated import SequenceGeneratorLimitExceededError as SequenceGeneratorLimitExceededError
from ._generated import SerializationError as SerializationError
from ._generated import SingletonSQLJsonItemRequiredError as SingletonSQLJsonItemRequiredError
from ._generated import SnapshotTooOldError as SnapshotTooOldError
from ._generated import SrfProtocolViolatedError as SrfProtocolViolatedError
from ._generated import StackedDiagnosticsAccessedWithoutActiveHandlerError as StackedDiagnosticsAccessedWithoutActiveHandlerError
from ._generated import StatementCompletionUnknownError as StatementCompletionUnknownError
from ._generated import StatementTooComplexError as StatementTooComplexError
from ._generated import StringDataLengthMismatchError as StringDataLengthMismatchError
from ._generated import StringDataRightTruncation as StringDataRightTruncation
from ._generated import StringDataRightTruncationError as StringDataRightTruncationError
from ._generated import SubstringError as SubstringError
from ._generated import SyntaxOrAccessError as SyntaxOrAccessError
from ._generated import TooManyArgumentsError as TooManyArgumentsError
from ._generated import TooManyColumnsError as TooManyColumnsError
from ._generated import TooManyConnectionsError as TooManyConnectionsError
from ._generated import TooManyJsonArrayElementsError as TooManyJsonArrayElementsError
from ._generated import TooManyJsonObjectMembersError as TooManyJsonObjectMembersError
from ._generated import TooManyRowsError as TooManyRowsError
from ._generated import TransactionIntegrityConstraintViolationError as TransactionIntegrityConstraintViolationError
from ._generated import TransactionResolutionUnknownError as TransactionResolutionUnknownError
from ._generated import TransactionRollbackError as TransactionRollbackError
from ._generated import TransactionTimeoutError as TransactionTimeoutError
from ._generated import TriggerProtocolViolatedError as TriggerProtocolViolatedError
from ._generated import TriggeredActionError as TriggeredActionError
from ._generated import TriggeredDataChangeViolationError as TriggeredDataChangeViolationError
from ._generated import TrimError as TrimError
from ._generated import UndefinedColumnError as UndefinedColumnError
from ._generated import UndefinedFileError as UndefinedFileError
from ._generated import UndefinedFunctionError as UndefinedFunctionError
from ._generated import UndefinedObjectError as UndefinedObjectError
from ._generated import UndefinedParameterError as UndefinedParameterError
from ._generated import UndefinedTableError as UndefinedTableError
from ._generated import UniqueViolationError as UniqueViolationError
from ._generated import UnsafeNewEnumValueUsageError as UnsafeNewEnumValueUsageError
from ._generated import UnterminatedCStringError as UnterminatedCStringError
from ._generated import UntranslatableCharacterError as UntranslatableCharacterError
from ._generated import WindowingError as WindowingError
from ._generated import WithCheckOptionViolationError as WithCheckOptionViolationError
from ._generated import WrongObjectTypeError as WrongObjectTypeError
from ._generated import ZeroLengthCharacterStringError as ZeroLengthCharacterStringError

__all__ = (
    "ClientConfigurationError",
    "FatalPostgresError",
    "InterfaceError",
    "InterfaceWarning",
    "InternalClientError",
    "OutdatedSchemaCacheError",
    "PostgresError",
    "PostgresLogMessage",
    "ProtocolError",
    "TargetServerAttributeNotMatched",
    "UnknownPostgresError",
    "UnsupportedClientFeatureError",
    "UnsupportedServerFeatureError",
    "PostgresWarning",
    "NullValueEliminatedInSetFunction",
    "StringDataRightTruncation",
    "PrivilegeNotRevoked",
    "PrivilegeNotGranted",
    "ImplicitZeroBitPadding",
    "DynamicResultSetsReturned",
    "DeprecatedFeature",
    "NoData",
    "NoAdditionalDynamicResultSetsReturned",
    "SQLStatementNotYetCompleteError",
    "PostgresConnectionError",
    "ClientCannotConnectError",
    "ConnectionDoesNotExistError",
    "ConnectionRejectionError",
    "ConnectionFailureError",
    "TransactionResolutionUnknownError",
    "ProtocolViolationError",
    "TriggeredActionError",
    "FeatureNotSupportedError",
    "InvalidCachedStatementError",
    "InvalidTransactionInitiationError",
    "LocatorError",
    "InvalidLocatorSpecificationError",
    "InvalidGrantorError",
    "InvalidGrantOperationError",
    "InvalidRoleSpecificationError",
    "DiagnosticsError",
    "StackedDiagnosticsAccessedWithoutActiveHandlerError",
    "InvalidArgumentForXqueryError",
    "CaseNotFoundError",
    "CardinalityViolationError",
    "DataError",
    "StringDataRightTruncationError",
    "NullValueNoIndicatorParameterError",
    "NumericValueOutOfRangeError",
    "NullValueNotAllowedError",
    "ErrorInAssignmentError",
    "InvalidDatetimeFormatError",
    "DatetimeFieldOverflowError",
    "InvalidTimeZoneDisplacementValueError",
    "EscapeCharacterConflictError",
    "InvalidUseOfEscapeCharacterError",
    "InvalidEscapeOctetError",
    "ZeroLengthCharacterStringError",
    "MostSpecificTypeMismatchError",
    "SequenceGeneratorLimitExceededError",
    "NotAnXmlDocumentError",
    "InvalidXmlDocumentError",
    "InvalidXmlContentError",
    "InvalidXmlCommentError",
    "InvalidXmlProcessingInstructionError",
    "InvalidIndicatorParameterValueError",
    "SubstringError",
    "DivisionByZeroError",
    "InvalidPrecedingOrFollowingSizeError",
    "InvalidArgumentForNtileFunctionError",
    "IntervalFieldOverflowError",
    "InvalidArgumentForNthValueFunctionError",
    "InvalidCharacterValueForCastError",
    "InvalidEscapeCharacterError",
    "InvalidRegularExpressionError",
    "InvalidArgumentForLogarithmError",
    "InvalidArgumentForPowerFunctionError",
    "InvalidArgumentForWidthBucketFunctionError",
    "InvalidRowCountInLimitClauseError",
    "InvalidRowCountInResultOffsetClauseError",
    "CharacterNotInRepertoireError",
    "IndicatorOverflowError",
    "InvalidParameterValueError",
    "UnterminatedCStringError",
    "InvalidEscapeSequenceError",
    "StringDataLengthMismatchError",
    "TrimError",
    "ArraySubscriptError",
    "InvalidTablesampleRepeatError",
    "InvalidTablesampleArgumentError",
    "DuplicateJsonObjectKeyValueError",
    "InvalidArgumentForSQLJsonDatetimeFunctionError",
    "InvalidJsonTextError",
    "InvalidSQLJsonSubscriptError",
    "MoreThanOneSQLJsonItemError",
    "NoSQLJsonItemError",
    "NonNumericSQLJsonItemError",
    "NonUniqueKeysInAJsonObjectError",
    "SingletonSQLJsonItemRequiredError",
    "SQLJsonArrayNotFoundError",
    "SQLJsonMemberNotFoundError",
    "SQLJsonNumberNotFoundError",
    "SQLJsonObjectNotFoundError",
    "TooManyJsonArrayElementsError",
    "TooManyJsonObjectMembersError",
    "SQLJsonScalarRequiredError",
    "SQLJsonItemCannotBeCastToTargetTypeError",
    "PostgresFloatingPointError",
    "InvalidTextRepresentationError",
    "InvalidBinaryRepresentationError",
    "BadCopyFileFormatError",
    "UntranslatableCharacterError",
    "NonstandardUseOfEscapeCharacterError",
    "IntegrityConstraintViolationError",
    "RestrictViolationError",
    "NotNullViolationError",
    "ForeignKeyViolationError",
    "UniqueViolationError",
    "CheckViolationError",
    "ExclusionViolationError",
    "InvalidCursorStateError",
    "InvalidTransactionStateError",
    "ActiveSQLTransactionError",
    "BranchTransactionAlreadyActiveError",
    "InappropriateAccessModeForBranchTransactionError",
    "InappropriateIsolationLevelForBranchTransactionError",
    "NoActiveSQLTransactionForBranchTransactionError",
    "ReadOnlySQLTransactionError",
    "SchemaAndDataStatementMixingNotSupportedError",
    "HeldCursorRequiresSameIsolationLevelError",
    "NoActiveSQLTransactionError",
    "InFailedSQLTransactionError",
    "IdleInTransactionSessionTimeoutError",
    "TransactionTimeoutError",
    "InvalidSQLStatementNameError",
    "TriggeredDataChangeViolationError",
    "InvalidAuthorizationSpecificationError",
    "InvalidPasswordError",
    "DependentPrivilegeDescriptorsStillExistError",
    "DependentObjectsStillExistError",
    "InvalidTransactionTerminationError",
    "SQLRoutineError",
    "ModifyingSQLDataNotPermittedError",
    "ProhibitedSQLStatementAttemptedError",
    "ReadingSQLDataNotPermittedError",
    "FunctionExecutedNoReturnStatementError",
    "InvalidCursorNameError",
    "ExternalRoutineError",
    "ContainingSQLNotPermittedError",
    "ModifyingExternalRoutineSQLDataNotPermittedError",
    "ProhibitedExternalRoutineSQLStatementAttemptedError",
    "ReadingExternalRoutineSQLDataNotPermittedError",
    "ExternalRoutineInvocationError",
    "InvalidSqlstateReturnedError",
    "NullValueInExternalRoutineNotAllowedError",
    "TriggerProtocolViolatedError",
    "SrfProtocolViolatedError",
    "EventTriggerProtocolViolatedError",
    "SavepointError",
    "InvalidSavepointSpecificationError",
    "InvalidCatalogNameError",
    "InvalidSchemaNameError",
    "TransactionRollbackError",
    "SerializationError",
    "TransactionIntegrityConstraintViolationError",
    "StatementCompletionUnknownError",
    "DeadlockDetectedError",
    "SyntaxOrAccessError",
    "InsufficientPrivilegeError",
    "PostgresSyntaxError",
    "InvalidNameError",
    "InvalidColumnDefinitionError",
    "NameTooLongError",
    "DuplicateColumnError",
    "AmbiguousColumnError",
    "UndefinedColumnError",
    "UndefinedObjectError",
    "DuplicateObjectError",
    "DuplicateAliasError",
    "DuplicateFunctionError",
    "AmbiguousFunctionError",
    "GroupingError",
    "DatatypeMismatchError",
    "WrongObjectTypeError",
    "InvalidForeignKeyError",
    "CannotCoerceError",
    "UndefinedFunctionError",
    "GeneratedAlwaysError",
    "ReservedNameError",
    "UndefinedTableError",
    "UndefinedParameterError",
    "DuplicateCursorError",
    "DuplicateDatabaseError",
    "DuplicatePreparedStatementError",
    "DuplicateSchemaError",
    "DuplicateTableError",
    "AmbiguousParameterError",
    "AmbiguousAliasError",
    "InvalidColumnReferenceError",
    "InvalidCursorDefinitionError",
    "InvalidDatabaseDefinitionError",
    "InvalidFunctionDefinitionError",
    "InvalidPreparedStatementDefinitionError",
    "InvalidSchemaDefinitionError",
    "InvalidTableDefinitionError",
    "InvalidObjectDefinitionError",
    "IndeterminateDatatypeError",
    "InvalidRecursionError",
    "WindowingError",
    "CollationMismatchError",
    "IndeterminateCollationError",
    "WithCheckOptionViolationError",
    "InsufficientResourcesError",
    "DiskFullError",
    "OutOfMemoryError",
    "TooManyConnectionsError",
    "ConfigurationLimitExceededError",
    "ProgramLimitExceededError",
    "StatementTooComplexError",
    "TooManyColumnsError",
    "TooManyArgumentsError",
    "ObjectNotInPrerequisiteStateError",
    "ObjectInUseError",
    "CantChangeRuntimeParamError",
    "LockNotAvailableError",
    "UnsafeNewEnumValueUsageError",
    "OperatorInterventionError",
    "QueryCanceledError",
    "AdminShutdownError",
    "CrashShutdownError",
    "CannotConnectNowError",
    "DatabaseDroppedError",
    "IdleSessionTimeoutError",
    "PostgresSystemError",
    "PostgresIOError",
    "UndefinedFileError",
    "DuplicateFileError",
    "FileNameTooLongError",
    "SnapshotTooOldError",
    "ConfigFileError",
    "LockFileExistsError",
    "FDWError",
    "FDWOutOfMemoryError",
    "FDWDynamicParameterValueNeededError",
    "FDWInvalidDataTypeError",
    "FDWColumnNameNotFoundError",
    "FDWInvalidDataTypeDescriptorsError",
    "FDWInvalidColumnNameError",
    "FDWInvalidColumnNumberError",
    "FDWInvalidUseOfNullPointerError",
    "FDWInvalidStringFormatError",
    "FDWInvalidHandleError",
    "FDWInvalidOptionIndexError",
    "FDWInvalidOptionNameError",
    "FDWOptionNameNotFoundError",
    "FDWReplyHandleError",
    "FDWUnableToCreateExecutionError",
    "FDWUnableToCreateReplyError",
    "FDWUnableToEstablishConnectionError",
    "FDWNoSchemasError",
    "FDWSchemaNotFoundError",
    "FDWTableNotFoundError",
    "FDWFunctionSequenceError",
    "FDWTooManyHandlesError",
    "FDWInconsistentDescriptorInformationError",
    "FDWInvalidAttributeValueError",
    "FDWInvalidStringLengthOrBufferLengthError",
    "FDWInvalidDescriptorFieldIdentifierError",
    "PLPGSQLError",
    "RaiseError",
    "NoDataFoundError",
    "TooManyRowsError",
    "AssertError",
    "InternalServerError",
    "DataCorruptedError",
    "IndexCorruptedError",
)
